package archive

import (
	"fmt"
	"strconv"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Digest describes samples by their number and by a sum: for each series scan.DigestSeries
// of scan.DigestSamples, added up modulo 2^64. It depends neither on the order of samples
// nor on how they are cut into parts, and a cluster tells it without giving its samples. The zero
// value is that of no samples.
type Digest struct {
	Samples int64 `json:"samples"`
	Sum     Sum   `json:"sum"`
}

// Sum is written as 16 hexadecimal digits.
type Sum uint64

// MarshalText implements encoding.TextMarshaler.
func (s Sum) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(s)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sum) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*s = Sum(n)
	return err
}

// Add adds samples of a series.
func (d *Digest) Add(key series.Key, timesMs []int64, values []float64) {
	d.Samples += int64(len(timesMs))
	d.Sum += Sum(scan.DigestSeries(key, scan.DigestSamples(timesMs, values)))
}

// Merge adds samples that another digest tells of.
func (d *Digest) Merge(other Digest) {
	d.Samples += other.Samples
	d.Sum += other.Sum
}
