package cache

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage"
	logentry "github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	labShards = 3
	labBaseMs = int64(1_700_000_000_000)
)

// lab is a storage engine whose entries a test makes.
type lab struct {
	t      *testing.T
	fs     vfs.FS
	random *rand.Rand
	*storage.Engine
	applied [labShards]uint64
	nowMs   int64
}

func (l *lab) open() {
	e, err := storage.Open(storage.Options{FS: l.fs, Dir: "data", Shards: labShards, SyncLog: func() error { return nil }})
	if err != nil {
		l.t.Fatal(err)
	}
	l.Engine = e
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// History implements scan.Historian, with the least it may do.
func (l *lab) History(_ context.Context, _ []uint16, since []scan.Mark) (changes []scan.Change, _ error) {
	for shard := range uint16(labShards) {
		mark := scan.Mark{Shard: shard}
		if at, found := slices.BinarySearchFunc(since, shard, func(m scan.Mark, s uint16) int { return cmp.Compare(m.Shard, s) }); found {
			mark = since[at]
		}
		changes = append(changes, l.Engine.History(mark))
	}
	return changes, nil
}

func (l *lab) entry(kind logentry.Kind, shard uint16, body []byte) {
	l.t.Helper()
	l.applied[shard]++
	l.must(l.Apply(1, &logentry.Entry{Kind: kind, Shard: shard, Term: 1, Index: l.applied[shard], Body: body}))
}

func labKey(i int) series.Key {
	return scantest.Key("", fmt.Sprint("m", i%2), "host", fmt.Sprint(i), "zone", fmt.Sprint(i%3))
}

func (l *lab) write(i int, timeMs int64) {
	var b series.BatchEncoder
	b.Append(b.Define(labKey(i)), timeMs, l.random.Int64N(1000), 1)
	batch := b.AppendTo(nil)
	l.entry(logentry.Samples, labKey(i).Shard(labShards), append(logentry.AppendBatchHeader(logentry.AppendTime(nil, 0), series.BatchID{}, len(batch)), batch...))
}

const labSeries = 12

// step changes something.
func (l *lab) step() {
	switch n := l.random.IntN(100); {
	case n < 50: // time goes on, most write
		l.nowMs += l.random.Int64N(90_000)
		for i := range labSeries {
			if l.random.IntN(4) > 0 {
				l.write(i, l.nowMs-l.random.Int64N(20_000))
			}
		}
	case n < 62: // a late one
		l.write(l.random.IntN(labSeries+4), l.nowMs-l.random.Int64N(3*3_600_000))
	case n < 67:
		fromMs := l.nowMs - l.random.Int64N(3*3_600_000)
		l.entry(logentry.Delete, uint16(l.random.IntN(labShards)), logentry.DeleteBody([]uint32{0, 1}, fromMs, fromMs+l.random.Int64N(600_000)))
	case n < 69:
		l.entry(logentry.Retention, uint16(l.random.IntN(labShards)), logentry.RetentionBody(l.nowMs-4*3_600_000+l.random.Int64N(3_600_000)))
		l.must(l.Retain())
	case n < 71:
		l.entry(logentry.RuleCuts, uint16(l.random.IntN(labShards)), retention.Encode(&retention.Cuts{
			OtherMs: retention.NoCut, Rules: []retention.Cut{{Metric: "m1", CutMs: l.nowMs - 3*3_600_000 + l.random.Int64N(3_600_000)}},
		}))
	case n < 80:
		l.must(l.Checkpoint(storage.Checkpoint{Applied: l.applied[:], SealAll: l.random.IntN(2) == 0}))
	case n < 85:
		l.must(l.Flush())
	case n < 88:
		_, err := l.Compact(context.Background(), l.nowMs)
		l.must(err)
	case n < 89: // a full disk
		l.must(l.DropBefore(l.nowMs - 3*3_600_000))
	case n < 91:
		l.must(l.Checkpoint(storage.Checkpoint{Applied: l.applied[:], SealAll: true}))
		l.must(l.Close())
		l.open()
	}
}

// labRequests are few, so that they come again.
func (l *lab) request() *scan.Request {
	r := &scan.Request{Selector: scan.Selector{MetricAny: true}, Parallel: l.random.IntN(4), ToMs: l.nowMs - l.random.Int64N(2)*l.random.Int64N(600_000)}
	switch l.random.IntN(3) {
	case 0:
		r.Metric, r.MetricAny = "m1", false
	case 1:
		r.Matchers = []scan.Matcher{
			{Name: "zone", Kind: scan.MatchIn, Values: []string{"1", "2"}}, {Name: "host", Kind: scan.MatchRegexp, Values: []string{"[0-9]"}},
		}
		l.random.Shuffle(2, func(i, j int) { r.Matchers[i], r.Matchers[j] = r.Matchers[j], r.Matchers[i] })
	}
	r.FromMs = r.ToMs - []int64{3_600_000, 2 * 3_600_000, 2 * 3_600_000, 5 * 3_600_000}[l.random.IntN(4)] + l.random.Int64N(2)*l.random.Int64N(60_000)
	r.Windows = &scan.Windows{OriginMs: l.random.Int64N(5) * 60_000, WidthMs: 60_000, Aggregates: scan.AggregateSum | scan.AggregateCount}
	if l.random.IntN(3) == 0 {
		r.Windows.Aggregates = scan.AggregateMax
	}
	return r
}

func compareChunks(t *testing.T, got, want map[string]*scan.Chunk) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d series, should be %d", len(got), len(want))
	}
	bits := func(values []float64) (out []uint64) {
		for _, v := range values {
			out = append(out, math.Float64bits(v))
		}
		return out
	}
	for key, w := range want {
		g := got[key]
		if g == nil {
			t.Fatalf("%v is missing", series.Key(key))
		}
		if !slices.Equal(g.Times, w.Times) || !slices.Equal(g.Count, w.Count) || !slices.Equal(bits(g.Sum), bits(w.Sum)) ||
			!slices.Equal(bits(g.Max), bits(w.Max)) || !slices.Equal(bits(g.Min), bits(w.Min)) ||
			!slices.Equal(bits(g.First), bits(w.First)) || !slices.Equal(bits(g.Last), bits(w.Last)) {
			t.Fatalf("%v: windows differ:\n%+v\n%+v", series.Key(key), g, w)
		}
	}
}

// TestEngineAnswersAreTheSame: late writes, deletes, cuts of both kinds, dropped files and
// restarts, with flushes and merges between, and the answers are those of the engine.
func TestEngineAnswersAreTheSame(t *testing.T) {
	var hits, changed float64
	for seed := range uint64(3) {
		l := &lab{t: t, fs: vfs.NewMemFS(), random: rand.New(rand.NewPCG(seed, 7)), nowMs: labBaseMs}
		l.open()
		c, clock := opened(Options{Bytes: []int64{1 << 30, 60_000}[seed%2]})
		cached := c.Source(l)
		for range 80 {
			l.step()
			clock.Store(l.nowMs - 30_000)
			r := l.request()
			got, err := scantest.Collect(context.Background(), cached, r)
			l.must(err)
			want, err := scantest.Collect(context.Background(), l.Engine, r)
			l.must(err)
			compareChunks(t, got, want)
		}
		hits, changed = hits+counted(c.metrics.hits), changed+counted(c.metrics.changed)
		l.must(l.Close())
	}
	if hits < 20 || changed < 40 {
		t.Fatalf("%g hits, %g changed: the test tests little", hits, changed)
	}
	t.Logf("%g hits, %g changed", hits, changed)
}

// TestEachChangeIsSeen: an answer is kept, one thing changes it, and the next answer is the
// engine's.
func TestEachChangeIsSeen(t *testing.T) {
	const hours = 3
	fromMs := labBaseMs - labBaseMs%(2*hourMs)
	cutMs := fromMs + 2*hourMs
	for name, change := range map[string]func(*lab){
		"a late sample": func(l *lab) { l.write(3, fromMs+hourMs+5) },
		"a late series": func(l *lab) { l.write(labSeries+1, fromMs+hourMs+5) },
		"another value": func(l *lab) { l.write(3, fromMs+hourMs) },
		"a delete":      func(l *lab) { l.entry(logentry.Delete, 1, logentry.DeleteBody([]uint32{0}, cutMs, cutMs+600_000)) },
		"a cut":         func(l *lab) { l.entry(logentry.Retention, 1, logentry.RetentionBody(cutMs)) },
		"a full disk":   func(l *lab) { l.must(l.DropBefore(cutMs)) },
		"a delete, restarted": func(l *lab) {
			l.entry(logentry.Delete, 1, logentry.DeleteBody([]uint32{0}, cutMs, cutMs+600_000))
			l.must(l.Checkpoint(storage.Checkpoint{Applied: l.applied[:], SealAll: true}))
			l.must(l.Close())
			l.open()
		},
		"a cut of a rule": func(l *lab) {
			l.entry(logentry.RuleCuts, labKey(1).Shard(labShards), retention.Encode(&retention.Cuts{
				OtherMs: retention.NoCut, Rules: []retention.Cut{{Metric: "m1", CutMs: cutMs}},
			}))
		},
		"a shard dropped": func(l *lab) { l.must(l.DropShard(1, 1<<40)) },
	} {
		t.Run(name, func(t *testing.T) {
			l := &lab{t: t, fs: vfs.NewMemFS(), random: rand.New(rand.NewPCG(1, 7))}
			l.open()
			for timeMs := fromMs; timeMs < fromMs+hours*hourMs; timeMs += 120_000 {
				for i := range labSeries {
					l.write(i, timeMs)
				}
			}
			l.must(l.Checkpoint(storage.Checkpoint{Applied: l.applied[:], SealAll: true}))
			l.must(l.Flush())
			c, now := opened(Options{Bytes: 1 << 30})
			now.Store(fromMs + hours*hourMs)
			cached := c.Source(l)
			r := minutes(fromMs, fromMs+hours*hourMs-1)
			r.Metric, r.MetricAny = "", true
			ask := func(s scan.Source) map[string]*scan.Chunk {
				found, err := scantest.Collect(context.Background(), s, r)
				l.must(err)
				return found
			}
			for range 3 {
				compareChunks(t, ask(cached), ask(l.Engine))
			}
			before := ask(l.Engine)
			if counted(c.metrics.hits) != 1 {
				t.Fatalf("%g hits", counted(c.metrics.hits))
			}
			change(l)
			after := ask(l.Engine)
			if same := len(before) == len(after); same {
				for key, b := range before {
					a := after[key]
					same = same && a != nil && slices.Equal(a.Times, b.Times) && slices.Equal(a.Sum, b.Sum)
				}
				if same {
					t.Fatal("nothing has changed")
				}
			}
			for range 3 {
				compareChunks(t, ask(cached), after)
			}
			l.must(l.Close())
		})
	}
}
