package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
)

// TestRangesTravel fetches ranges that are longer than one message, and such as are
// refused.
func TestRangesTravel(t *testing.T) {
	address, _ := serve(t, &fakeNode{hello: nodeHello("a")}, Options{})
	conn := dialConn(t, address, nodeHello("b"))
	read := func(fromMs, toMs int64, indexMin uint64) ([]byte, error) {
		r, err := OpenRange(t.Context(), conn, 7, fromMs, toMs, indexMin)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	got, err := read(1, 9, 5)
	want := bytes.Repeat(fmt.Append(nil, 7, int64(1), int64(9), uint64(5), "|"), rangeRepeats)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if _, err := read(1, 9, 6); !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("a node that lags: %v", err)
	}
	if _, err := read(9, 1, 0); !errors.Is(err, wire.ErrInvalid) {
		t.Fatalf("a range that ends before it begins: %v", err)
	}
}
