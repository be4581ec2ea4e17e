package storage

import (
	"bytes"
	"context"
	"io"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestHistoryTellsTheLeastTime compares with a list of all entries.
func TestHistoryTellsTheLeastTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const run = 9
		h := history{run: run, since: 10}
		times := rapid.SliceOfN(rapid.OneOf(
			rapid.Just[int64](math.MaxInt64), rapid.Just[int64](math.MinInt64), rapid.Int64Range(-300_000, 300_000), rapid.Int64Range(1e12, 1e12+900_000),
		), 0, 60).Draw(t, "times")
		for i, timeMs := range times {
			h.finish(11+uint64(i), timeMs)
		}
		for since := range uint64(11 + len(times)) {
			want := int64(math.MaxInt64)
			for i, timeMs := range times {
				if 11+uint64(i) > since {
					want = min(want, timeMs)
				}
			}
			if since < 10 {
				want = math.MinInt64
			}
			got := h.touched(run, since)
			if near := want != math.MaxInt64 && want != math.MinInt64; near && (got > want || want-got >= historyGrainMs || got%historyGrainMs != 0) || !near && got != want {
				t.Fatalf("since %d: %d, want %d", since, got, want)
			}
		}
		if h.touched(run+1, 1000) != math.MinInt64 {
			t.Fatal("another run is known")
		}
	})
}

// TestHistoryIsBounded: what is forgotten is not known, and the rest is.
func TestHistoryIsBounded(t *testing.T) {
	h := history{run: 1}
	const entries = 5 * historyStepsMax
	for i := range int64(entries) {
		h.finish(uint64(i+1), i*historyGrainMs)
		if len(h.steps) > historyStepsMax {
			t.Fatalf("%d steps", len(h.steps))
		}
	}
	for since := range uint64(entries) {
		want := int64(since) * historyGrainMs
		if since < h.since {
			want = math.MinInt64
		}
		if got := h.touched(1, since); got != want {
			t.Fatalf("since %d: %d, want %d", since, got, want)
		}
	}
	if h.since > entries-historyStepsMax/2 {
		t.Fatalf("only entries from %d on are known", h.since)
	}
}

// rangeOf provides a repair with what another engine has.
type rangeOf struct{ *Engine }

func (r rangeOf) OpenRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64) (io.ReadCloser, error) {
	var stream bytes.Buffer
	err := r.ExportRange(ctx, shard, fromMs, toMs, indexMin, &stream)
	return io.NopCloser(&stream), err
}

func (r rangeOf) AwaitApplied(context.Context, uint16, uint64) error { return nil }

// TestHistoryOfReplacedReplicas: nothing is known of a mark of a replica that was dropped,
// replaced or repaired, or of before a restart, and nothing while files go without an entry.
func TestHistoryOfReplacedReplicas(t *testing.T) {
	fs := vfs.NewMemFS()
	open := func(dir string) *Engine {
		e, err := Open(Options{FS: fs, Dir: dir, Shards: 1, SyncLog: func() error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(e *Engine, index uint64, timeMs int64) {
		t.Helper()
		var b series.BatchEncoder
		b.Append(b.Define(series.AppendKey(nil, nil, []byte("m"), nil)), timeMs, 1, 0)
		batch := b.AppendTo(nil)
		body := append(entry.AppendBatchHeader(entry.AppendTime(nil, 0), series.BatchID{}, len(batch)), batch...)
		must(e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: index, Body: body}))
	}
	e, other := open("data"), open("other")
	const dayMs = int64(1_700_000_000_000)
	write(e, 1, dayMs)
	write(other, 1, dayMs)
	mark := e.History(scan.Mark{}).Mark
	if mark.Run == 0 || mark.Index != 1 {
		t.Fatalf("%+v", mark)
	}
	if c := e.History(mark); c.Mark != mark || c.LeastMs != scan.ChangedNothing {
		t.Fatalf("%+v", c)
	}
	write(e, 2, dayMs+61_000)
	if c := e.History(mark); c.Index != 2 || c.Run != mark.Run || c.LeastMs > dayMs+61_000 || c.LeastMs <= dayMs {
		t.Fatalf("%+v", c)
	}
	e.shards[0].mu.watches.touch(dayMs - 7) // an entry stalls halfway
	if c := e.History(e.History(mark).Mark); c.LeastMs != dayMs-7 {
		t.Fatalf("%+v", c)
	}
	e.shards[0].mu.watches.leastMs = math.MaxInt64
	unknown := func(what string) {
		t.Helper()
		c := e.History(mark)
		if c.LeastMs != scan.ChangedAll || c.Run == mark.Run {
			t.Fatalf("%s: %+v", what, c)
		}
		mark = c.Mark
	}
	e.suspendHistories(true)
	if c := e.History(mark); c.Run != 0 {
		t.Fatalf("while files go: %+v", c)
	}
	e.suspendHistories(false)
	unknown("files have gone")
	must(e.DropBefore(dayMs - 100*24*3_600_000))
	unknown("a full disk")

	write(other, 2, dayMs+61_000)
	_, err := e.RepairRange(context.Background(), 0, dayMs, dayMs, rangeOf{other})
	must(err)
	unknown("repair")

	x, err := other.ExportShard(0)
	must(err)
	var stream bytes.Buffer
	_, err = x.WriteTo(&stream)
	must(err)
	must(x.Close())
	_, err = e.InstallShard(context.Background(), 0, 5, &stream)
	must(err)
	unknown("files were installed")

	must(e.DropShard(0, 6))
	if c := e.History(mark); c.Run != 0 || c.LeastMs != scan.ChangedAll {
		t.Fatalf("dropped: %+v", c)
	}
	must(e.Close())
	e = open("data")
	unknown("restart")
	must(e.Close())
	must(other.Close())
}
