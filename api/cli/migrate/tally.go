package migrate

import (
	"fmt"
	"math"
	"time"

	"github.com/zeebo/xxh3"
)

// Tally is what is compared of a step. Samples may be added in any order.
type Tally struct {
	Samples int64   `json:"samples"`
	Sum     float64 `json:"-"` // of the finite values; its last digits depend on the order
	// Fingerprint is the sum of a hash of each sample, by its series, its time and the bits of its value.
	Fingerprint uint64 `json:"-"`
}

func (t *Tally) add(key []byte, times []int64, values []float64) {
	seed := xxh3.Hash(key)
	t.Samples += int64(len(times))
	for i, ms := range times {
		v := values[i]
		if isFinite(v) {
			t.Sum += v
		}
		t.Fingerprint += mix(mix(seed+uint64(ms)) + math.Float64bits(v))
	}
}

func (t *Tally) merge(of Tally) {
	t.Samples += of.Samples
	t.Sum += of.Sum
	t.Fingerprint += of.Fingerprint
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (t *Tally) same(o *Tally) bool { return t.Samples == o.Samples && t.Fingerprint == o.Fingerprint }

// Difference is a step of which both sides do not have the same.
type Difference struct {
	Name    string `json:"name"`
	FromMs  int64  `json:"from_ms"`
	ToMs    int64  `json:"to_ms"`
	Source  string `json:"source"`
	Cluster string `json:"cluster"`
}

func newDifference(name string, fromMs, toMs int64, source, cluster *Tally) Difference {
	d := Difference{Name: name, FromMs: fromMs, ToMs: toMs, Source: source.String(), Cluster: cluster.String()}
	if d.Source == d.Cluster {
		d.Cluster += ", but not the same times or values"
	}
	return d
}

// String returns the tally for people.
func (t *Tally) String() string { return fmt.Sprintf("%d samples, sum %.12g", t.Samples, t.Sum) }

// String returns the difference for people.
func (d *Difference) String() string {
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z") }
	return fmt.Sprintf("%s, %s to %s: the source has %s; the cluster has %s", d.Name, at(d.FromMs), at(d.ToMs), d.Source, d.Cluster)
}
