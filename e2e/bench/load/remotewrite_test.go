package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"testing"

	"github.com/klauspost/compress/snappy"
)

// field is one field of a message, read by the rules of Protocol Buffers alone.
type field struct {
	number int
	bytes  []byte // of a field of bytes or of 64 bits
	value  uint64 // of a varint
}

func fieldsOf(t *testing.T, b []byte) (fields []field) {
	t.Helper()
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		f, b2 := field{number: int(tag >> 3)}, b[n:]
		switch tag & 7 {
		case 0:
			f.value, n = binary.Uvarint(b2)
		case 1:
			f.bytes, n = b2[:8], 8
		case 2:
			length, used := binary.Uvarint(b2)
			f.bytes, n = b2[used:used+int(length)], used+int(length)
		default:
			t.Fatalf("wire type %d", tag&7)
		}
		if n <= 0 {
			t.Fatal("a varint is cut")
		}
		fields, b = append(fields, f), b2[n:]
	}
	return fields
}

func TestRemoteWriteSaysWhatWasSet(t *testing.T) {
	var w RemoteWrite
	w.Append([]Label{{"__name__", "m"}, {"host", "a"}}, 2)
	long := string(bytes.Repeat([]byte("x"), 300))
	w.Append([]Label{{"__name__", "m"}, {"host", long}}, 1)
	w.Set(0, 1_700_000_000_000, 1.5)
	w.Set(1, 1_700_000_010_000, math.Inf(-1))
	w.Set(2, 1_700_000_020_001, 0)
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(w.Request("h:1", "/api/v1/write"))))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := io.ReadAll(request.Body)
	if err != nil || int(request.ContentLength) != len(packed) || request.Header.Get("Content-Encoding") != "snappy" {
		t.Fatal(request.Header, err)
	}
	message, err := snappy.Decode(nil, packed)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, series := range fieldsOf(t, message) {
		for _, part := range fieldsOf(t, series.bytes) {
			inner := fieldsOf(t, part.bytes)
			if part.number == 1 {
				got = append(got, fmt.Sprintf("%s=%s", inner[0].bytes, inner[1].bytes))
				continue
			}
			got = append(got, fmt.Sprintf("%v@%d", math.Float64frombits(binary.LittleEndian.Uint64(inner[0].bytes)), inner[1].value))
		}
	}
	want := []string{"__name__=m", "host=a", "1.5@1700000000000", "-Inf@1700000010000", "__name__=m", "host=" + long, "0@1700000020001"}
	if !slices.Equal(got, want) || w.Samples() != 3 {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	w.SetTimes(1_700_000_030_000)
	if again, err := snappy.Decode(nil, bytes.SplitN(w.Request("h", "/"), []byte("\r\n\r\n"), 2)[1]); err != nil || len(again) != len(message) {
		t.Fatal(len(again), err)
	}
}
