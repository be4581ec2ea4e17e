package load

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/klauspost/compress/snappy"
)

// Label is a name and a value.
type Label struct{ Name, Value string }

// RemoteWrite is a message of Prometheus' remote write 1.0
// (https://prometheus.io/docs/specs/prw/remote_write_spec/), whose times and values are
// changed in place, so that sending it again costs next to no encoding.
type RemoteWrite struct {
	message []byte
	samples []int // offset of each sample's value in message
	packed  []byte
	request []byte
}

// A sample takes 16 bytes: its value behind a tag, its time behind a tag as a varint,
// which has six bytes for the times from 1971 to 2109.
const (
	timeVarintBytes = 6
	sampleBytes     = 1 + 8 + 1 + timeVarintBytes
)

// Append adds a series with so many samples, whose times and values are set by Set. Labels
// are sorted by name, the metric's "__name__" among them.
func (w *RemoteWrite) Append(labels []Label, samples int) {
	size := 0
	for _, l := range labels {
		body := fieldBytes(len(l.Name)) + fieldBytes(len(l.Value))
		size += fieldBytes(body)
	}
	size += samples * (2 + sampleBytes)
	b := binary.AppendUvarint(append(w.message, 1<<3|2), uint64(size))
	for _, l := range labels {
		b = binary.AppendUvarint(append(b, 1<<3|2), uint64(fieldBytes(len(l.Name))+fieldBytes(len(l.Value))))
		b = append(binary.AppendUvarint(append(b, 1<<3|2), uint64(len(l.Name))), l.Name...)
		b = append(binary.AppendUvarint(append(b, 2<<3|2), uint64(len(l.Value))), l.Value...)
	}
	for range samples {
		b = append(b, 2<<3|2, sampleBytes, 1<<3|1)
		w.samples = append(w.samples, len(b))
		b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 2<<3, 0x80, 0x80, 0x80, 0x80, 0x80, 0)
	}
	w.message = b
}

// fieldBytes is what a field of bytes takes with its tag and its length.
func fieldBytes(n int) int {
	var length [binary.MaxVarintLen64]byte
	return 1 + binary.PutUvarint(length[:], uint64(n)) + n
}

// Samples returns the number of samples.
func (w *RemoteWrite) Samples() int { return len(w.samples) }

// Set sets the time and value of sample n, in the order of Append.
func (w *RemoteWrite) Set(n int, timeMs int64, value float64) {
	at := w.samples[n]
	binary.LittleEndian.PutUint64(w.message[at:], math.Float64bits(value))
	w.setTime(at, timeMs)
}

func (w *RemoteWrite) setTime(at int, timeMs int64) {
	b := w.message[at+9 : at+9+timeVarintBytes]
	for i := range b {
		b[i] = byte(timeMs) | 0x80
		timeMs >>= 7
	}
	b[timeVarintBytes-1] &^= 0x80
}

// SetTimes sets one time for all samples.
func (w *RemoteWrite) SetTimes(timeMs int64) {
	for _, at := range w.samples {
		w.setTime(at, timeMs)
	}
}

// Request returns the message as a POST request. It is valid until the next call.
func (w *RemoteWrite) Request(host, path string) []byte {
	if limit := snappy.MaxEncodedLen(len(w.message)); cap(w.packed) < limit {
		w.packed = make([]byte, limit)
	}
	packed := snappy.Encode(w.packed[:cap(w.packed)], w.message)
	b := append(w.request[:0], "POST "+path+" HTTP/1.1\r\nHost: "+host+
		"\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, int64(len(packed)), 10), "\r\n\r\n"...)
	w.request = append(b, packed...)
	return w.request
}
