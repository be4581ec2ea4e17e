package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
)

// content is samples, obviously: bits by series and time.
type content map[string]map[int64]uint64

func keyOf(metric, host string) series.Key {
	return series.AppendKey(nil, []byte("db"), []byte(metric), []series.Tag{{Name: []byte("host"), Value: []byte(host)}})
}

func (c content) clone() content {
	other := content{}
	for key, samples := range c {
		other[key] = maps.Clone(samples)
	}
	return other
}

// visit visits the samples of a metric in a range, series by series.
func (c content) visit(metric string, fromMs, toMs int64, visit Visitor) error {
	for _, key := range slices.Sorted(maps.Keys(c)) {
		if _, m, _, err := series.Key(key).Parts(nil); err != nil || string(m) != metric {
			continue
		}
		var times []int64
		var values []float64
		for _, ms := range slices.Sorted(maps.Keys(c[key])) {
			if ms >= fromMs && ms <= toMs {
				times, values = append(times, ms), append(values, math.Float64frombits(c[key][ms]))
			}
		}
		if len(times) > 0 {
			if err := visit(series.Key(key), times, values); err != nil {
				return err
			}
		}
	}
	return nil
}

const rangeMs = 100

// wanted returns the digests of all ranges that have samples.
func (c content) wanted(metrics []string) (list []Wanted) {
	for from := int64(0); from < 4*rangeMs; from += rangeMs {
		for _, metric := range metrics {
			w := Wanted{Database: "db", Metric: metric, FromMs: from, ToMs: from + rangeMs - 1}
			_ = c.visit(metric, w.FromMs, w.ToMs, func(key series.Key, timesMs []int64, values []float64) error {
				w.Add(key, timesMs, values)
				return nil
			})
			if w.Samples > 0 {
				list = append(list, w)
			}
		}
	}
	return list
}

// contentOf returns the samples of a backup.
func contentOf(ctx context.Context, b *Backup) (content, error) {
	c := content{}
	return c, b.Read(ctx, func(*Unit) bool { return true }, func(*Unit) Visitor {
		return func(key series.Key, timesMs []int64, values []float64) error {
			if c[string(key)] == nil {
				c[string(key)] = map[int64]uint64{}
			}
			for i, ms := range timesMs {
				if _, twice := c[string(key)][ms]; twice {
					return fmt.Errorf("%q has %d twice", key, ms)
				}
				c[string(key)][ms] = math.Float64bits(values[i])
			}
			return nil
		}
	}, nil)
}

// world is a target, what is in its backups, and a cluster that changes.
type world struct {
	store   Store
	now     time.Time
	cluster content
	metrics []string
	backups map[string]content // complete ones
	aging   *aging
}

var errFill = errors.New("no more")

func (w *world) change(t *rapid.T) {
	bits := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1 << 63, 0x7ff8000000000001, 0x7ff0000000000001}))
	for range rapid.IntRange(1, 10).Draw(t, "changes") {
		key := string(keyOf(rapid.SampledFrom(w.metrics).Draw(t, "metric"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host")))
		ms := rapid.Int64Range(0, 4*rangeMs-1).Draw(t, "time")
		switch {
		case rapid.IntRange(0, 5).Draw(t, "delete") == 0:
			delete(w.cluster, key)
		case w.cluster[key] == nil:
			w.cluster[key] = map[int64]uint64{}
			fallthrough
		default:
			w.cluster[key][ms] = bits.Draw(t, "bits")
		}
	}
}

func (w *world) clock() time.Time { return w.now }

// back makes a backup, or a part of one. Between Begin and the rest, others may prune.
func (w *world) back(t *rapid.T, name string) {
	ctx := context.Background()
	o := WriterOptions{
		Name: name, Cluster: "c", Now: w.clock, Incremental: rapid.IntRange(0, 3).Draw(t, "incremental") > 0,
		ObjectBytes: rapid.Int64Range(1, 400).Draw(t, "object bytes"),
	}
	if rapid.IntRange(0, 2).Draw(t, "prune within") == 0 {
		w.aging.beforePut = func() { w.prune(t) }
	}
	b, err := Begin(ctx, w.store, o)
	w.aging.beforePut = nil
	if w.backups[name] != nil {
		if !errors.Is(err, ErrUsed) {
			t.Fatalf("%s is complete: %v", name, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if rapid.IntRange(0, 2).Draw(t, "prune meanwhile") == 0 {
		w.prune(t)
	}
	all := w.cluster.wanted(w.metrics)
	left := b.Take(all)
	if rapid.IntRange(0, 2).Draw(t, "prune later") == 0 {
		w.prune(t)
	}
	for i := range left {
		u := &left[i]
		if rapid.IntRange(0, 7).Draw(t, "fails") == 0 {
			err := b.Unit(ctx, "db", u.Metric, u.FromMs, u.ToMs, func(visit Visitor) error {
				return errors.Join(errFill, w.cluster.visit(u.Metric, u.FromMs, u.ToMs, visit))
			})
			if !errors.Is(err, errFill) {
				t.Fatal(err)
			}
		}
		err := b.Unit(ctx, "db", u.Metric, u.FromMs, u.ToMs, func(visit Visitor) error {
			return w.cluster.visit(u.Metric, u.FromMs, u.ToMs, visit)
		})
		if err != nil {
			t.Fatal(err)
		}
		switch rapid.IntRange(0, 20).Draw(t, "stop") {
		case 0: // killed
			return
		case 1:
			if err := b.Abandon(ctx); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	if _, err := b.Finish(ctx, int64(len(w.cluster))); err != nil {
		t.Fatal(err)
	}
	w.backups[name] = w.cluster.clone()
}

func (w *world) prune(t *rapid.T) {
	o := PruneOptions{Keep: rapid.IntRange(0, 3).Draw(t, "keep"), Grace: time.Hour, Now: w.now}
	if names := slices.Sorted(maps.Keys(w.backups)); len(names) > 0 && rapid.Bool().Draw(t, "by name") {
		o.Names = []string{rapid.SampledFrom(names).Draw(t, "name")}
	}
	done, err := Prune(context.Background(), w.store, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range done.Backups {
		delete(w.backups, name)
	}
	if o.Keep > 0 && len(w.backups) > o.Keep {
		t.Fatalf("%d backups are left, not %d", len(w.backups), o.Keep)
	}
}

// check compares all complete backups with what was backed up.
func (w *world) check(t *rapid.T) {
	ctx := context.Background()
	list, err := List(ctx, w.store)
	if err != nil {
		t.Fatal(err)
	}
	complete := 0
	for i := range list {
		if list[i].Err != nil {
			t.Fatal(list[i].Err)
		}
		if list[i].Complete() {
			complete++
		}
	}
	if complete != len(w.backups) {
		t.Fatalf("%d backups, want %d", complete, len(w.backups))
	}
	for name, want := range w.backups {
		b, err := Load(ctx, w.store, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Check(ctx, nil); err != nil {
			t.Fatal(err)
		}
		got, err := contentOf(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.EqualFunc(got, want, maps.Equal[map[int64]uint64, map[int64]uint64]) {
			t.Fatalf("%s has %v, want %v", name, got, want)
		}
	}
}

// aging is a store whose objects have the ages of a made clock.
type aging struct {
	Store
	now *time.Time
	put map[string]time.Time

	beforePut func() // runs once, before the next Put; nil: nothing does
}

func (a *aging) Put(ctx context.Context, key string, content []byte) error {
	if run := a.beforePut; run != nil {
		a.beforePut = nil
		run()
	}
	a.put[key] = *a.now
	return a.Store.Put(ctx, key, content)
}

func (a *aging) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for info, err := range a.Store.List(ctx, prefix) {
			info.ModifiedAt = a.put[info.Key]
			if !yield(info, err) {
				return
			}
		}
	}
}

// slowTurns bounds what is played on stores that take their time.
const slowTurns = 4

// TestBackups makes backups of a cluster that changes, kills some, goes on with them, and
// prunes at any time: each complete backup has what the cluster had, to the bit.
func TestBackups(t *testing.T) {
	all := stores(t)
	all["memory"] = func() Store { return memory{} }
	all["encrypted and signed"] = all["memory"]
	keys := newTestKeys(t)
	for name, empty := range all {
		t.Run(name, func(t *testing.T) {
			turns := 0
			rapid.Check(t, func(t *rapid.T) {
				if turns++; turns > slowTurns && name != "memory" {
					return
				}
				w := &world{now: time.Unix(1_700_000_000, 0), cluster: content{}, metrics: []string{"m", "n"}, backups: map[string]content{}}
				w.aging = &aging{Store: empty(), now: &w.now, put: map[string]time.Time{}}
				w.store = w.aging
				if name == "encrypted and signed" {
					w.store = WithKeys(w.aging, keys.both())
				}
				for n := range rapid.IntRange(1, 8).Draw(t, "steps") {
					w.now = w.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute)
					w.change(t)
					w.back(t, fmt.Sprintf("b%d", max(0, n-rapid.IntRange(0, 1).Draw(t, "again"))))
					w.check(t)
				}
				// Whatever was killed is gone in the end, and nothing is left of it.
				w.now = w.now.Add(48 * time.Hour)
				w.prune(t)
				w.check(t)
				names := slices.Collect(maps.Keys(w.backups))
				if _, err := Prune(context.Background(), w.store, PruneOptions{Names: names, Grace: time.Hour, Now: w.now}); err != nil {
					t.Fatal(err)
				}
				for info, err := range w.store.List(context.Background(), "") {
					t.Fatalf("%v is left, %v", info, err)
				}
				clear(w.backups)
				// One that is deleted at once leaves nothing either.
				w.back(t, "last")
				if w.backups["last"] == nil {
					return
				}
				if _, err := Prune(context.Background(), w.store, PruneOptions{Names: []string{"last"}, Grace: time.Hour, Now: w.now}); err != nil {
					t.Fatal(err)
				}
				for info, err := range w.store.List(context.Background(), "") {
					t.Fatalf("%v is left of the last, %v", info, err)
				}
			})
		})
	}
}

// TestUnchanged: a second backup of the same samples reads none and writes no object of
// samples.
func TestUnchanged(t *testing.T) {
	w := &world{now: time.Unix(1_700_000_000, 0), store: NewFolder(t.TempDir()), metrics: []string{"m"}, cluster: content{
		string(keyOf("m", "a")): {1: 2, 150: 3, 151: 1 << 63}, string(keyOf("m", "b")): {1: 2},
	}}
	var written []int64
	for n := range 3 {
		b, err := Begin(t.Context(), w.store, WriterOptions{Name: fmt.Sprint(n), Cluster: "c", Now: w.clock, Incremental: true, ObjectBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		left := b.Take(w.cluster.wanted(w.metrics))
		for _, u := range left {
			if err := b.Unit(t.Context(), "db", u.Metric, u.FromMs, u.ToMs, func(visit Visitor) error { return w.cluster.visit(u.Metric, u.FromMs, u.ToMs, visit) }); err != nil {
				t.Fatal(err)
			}
		}
		m, err := b.Finish(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if want := []int{2, 0, 1}[n]; len(left) != want || m.Samples != 4 || m.Units != 2 {
			t.Fatalf("backup %d reads %d units, want %d: %+v", n, len(left), want, m)
		}
		written = append(written, m.Written)
		w.cluster[string(keyOf("m", "a"))][150] = 7 - uint64(n) // before the third
		if n == 0 {
			w.cluster[string(keyOf("m", "a"))][150] = 3
		}
		w.now = w.now.Add(time.Second)
	}
	if written[0] == 0 || written[1] != 0 || written[2] == 0 || written[2] >= written[0] {
		t.Error(written)
	}
}
