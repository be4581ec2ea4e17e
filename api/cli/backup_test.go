package cli

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

func TestBackupsOfOneSecond(t *testing.T) {
	store := archive.NewFolder(t.TempDir())
	o := archive.WriterOptions{Cluster: "c", Now: func() time.Time { return time.UnixMilli(1_700_000_000_999) }}
	for _, want := range []string{"20231114t221320z", "20231114t221320z-2", "20231114t221320z-3"} {
		w, err := beginBackup(t.Context(), store, o)
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.Finish(t.Context(), 0)
		if err != nil || m.Name != want {
			t.Fatalf("%v, %v, want %s", m, err, want)
		}
	}
	o.Name = "20231114t221320z"
	if _, err := beginBackup(t.Context(), store, o); !errors.Is(err, archive.ErrUsed) {
		t.Fatal(err)
	}
}

// TestStartOf looks at starts of ranges over all of int64, also where "raw" without a bound is math.MinInt64.
func TestStartOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int64{series.HourMs, dayMs, periodMs}).Draw(t, "width")
		ms := rapid.OneOf(rapid.Int64(), rapid.Int64Range(math.MinInt64, math.MinInt64+2*periodMs)).Draw(t, "time")
		got := startOf(ms, width)
		var want big.Int
		want.Div(big.NewInt(ms), big.NewInt(width)) // Euclid's: the floor
		want.Mul(&want, big.NewInt(width))
		if !want.IsInt64() {
			want.SetInt64(math.MinInt64)
		}
		if got != want.Int64() {
			t.Fatalf("start of %d is %d, want %v", ms, got, &want)
		}
	})
}

// TestWanted compares the units of a backup with a look at single days.
func TestWanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recent := startOf(rapid.Int64Range(-1e12, 1e12).Draw(t, "recent"), periodMs)
		d := &digests{days: map[int64]archive.Digest{}}
		for range rapid.IntRange(0, 20).Draw(t, "days") {
			near := rapid.Int64Range(recent-100*dayMs, recent+100*dayMs)
			ms := rapid.OneOf(near, rapid.Int64Range(scan.TimeMsMin, scan.TimeMsMax)).Draw(t, "time")
			d.days[startOf(ms, dayMs)] = archive.Digest{Samples: 1, Sum: archive.Sum(ms)}
		}
		list := d.wanted(metricName{"d", "m"}, recent)
		for day, digest := range d.days {
			n := 0
			for _, w := range list {
				if w.FromMs <= max(day, scan.TimeMsMin) && min(day+dayMs-1, scan.TimeMsMax) <= w.ToMs {
					n++
				} else if w.FromMs <= day+dayMs-1 && day <= w.ToMs {
					t.Fatalf("day %d is cut by %+v", day, w)
				}
				if day >= recent && w.FromMs == day && w.Digest != digest {
					t.Fatalf("day %d has %+v, want %+v", day, w.Digest, digest)
				}
			}
			if n != 1 {
				t.Fatalf("day %d is in %d of %+v", day, n, list)
			}
		}
		var sum, want archive.Digest
		for _, w := range list {
			sum.Merge(w.Digest)
		}
		for _, digest := range d.days {
			want.Merge(digest)
		}
		if sum != want {
			t.Fatalf("%+v in all, want %+v", sum, want)
		}
	})
}
