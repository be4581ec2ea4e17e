package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// oracle records what must be in a node and what may be: a write or delete that returned
// an error may have happened or not, and a sample that such a delete concerns may
// be there or not.
type oracle struct {
	must model
	may  map[string]map[int64][]uint64 // values that may be there instead
	gone map[string]map[int64]bool     // those of must that may be missing
}

func newOracle() *oracle {
	return &oracle{must: model{}, may: map[string]map[int64][]uint64{}, gone: map[string]map[int64]bool{}}
}

type sample struct {
	key    series.Key
	timeMs int64
	value  float64
}

// wrote notes what became of a write.
func (o *oracle) wrote(samples []sample, err error) {
	for _, s := range samples {
		k := string(s.key)
		if err == nil {
			o.must.put(s.key, s.timeMs, s.value)
			delete(o.may[k], s.timeMs)
			delete(o.gone[k], s.timeMs)
			continue
		}
		if o.may[k] == nil {
			o.may[k] = map[int64][]uint64{}
		}
		o.may[k][s.timeMs] = append(o.may[k][s.timeMs], math.Float64bits(s.value))
	}
}

// deleted notes what became of a delete.
func (o *oracle) deleted(key series.Key, fromMs, toMs int64, err error) {
	k := string(key)
	if err == nil {
		o.must.remove(key, fromMs, toMs)
		for t := range o.may[k] {
			if t >= fromMs && t <= toMs {
				delete(o.may[k], t)
			}
		}
		return
	}
	if o.gone[k] == nil {
		o.gone[k] = map[int64]bool{}
	}
	for t := range o.must[k] {
		if t >= fromMs && t <= toMs {
			o.gone[k][t] = true
		}
	}
}

// cut notes what became of a retention cut.
func (o *oracle) cut(cutMs int64, err error) {
	for k := range o.must {
		o.deleted(series.Key(k), math.MinInt64, cutMs-1, err)
	}
}

// differences describes where got is not what it may be.
func (o *oracle) differences(got model) []string {
	var found []string
	for k, samples := range o.must {
		for at, v := range samples {
			g, ok := got[k][at]
			switch {
			case !ok && !o.gone[k][at]:
				found = append(found, fmt.Sprintf("%s at %d is missing", series.Key(k), at))
			case ok && g != v && !slices.Contains(o.may[k][at], g):
				found = append(found, fmt.Sprintf("%s at %d is %x, want %x", series.Key(k), at, g, v))
			}
		}
	}
	for k, samples := range got {
		for at, g := range samples {
			if _, ok := o.must[k][at]; !ok && !slices.Contains(o.may[k][at], g) {
				found = append(found, fmt.Sprintf("%s at %d was never written", series.Key(k), at))
			}
		}
	}
	slices.Sort(found)
	return found[:min(len(found), 10)]
}

// run is a sequence of random steps on a node whose disk may fail.
type run struct {
	rng    *rand.Rand
	node   *Node
	oracle *oracle
	now    int64
	errs   []error
}

func newRun(seed uint64) *run {
	return &run{rng: rand.New(rand.NewPCG(seed, 11)), oracle: newOracle(), now: 1_700_000_000_000}
}

func (r *run) ctx() context.Context { return context.Background() }

// step does one random thing and remembers its error.
func (r *run) step() {
	ctx := r.ctx()
	r.now += r.rng.Int64N(200_000)
	var err error
	switch k := r.rng.IntN(100); {
	case k < 60:
		err = r.write(ctx)
	case k < 66:
		err = r.delete(ctx)
	case k < 78:
		err = r.node.checkpoint()
	case k < 90:
		err = r.node.engine.Flush()
	default:
		_, err = r.node.engine.Compact(ctx, r.now+r.rng.Int64N(3*24*3600_000))
	}
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

func (r *run) write(ctx context.Context) error {
	w := &testWriter{node: r.node}
	var samples []sample
	for range 1 + r.rng.IntN(150) {
		s := sample{key: testKey(r.rng.IntN(30 + int(r.now/1e6)%40)), timeMs: r.now + r.rng.Int64N(60_000), value: float64(r.rng.IntN(1e6)) / 100}
		if r.rng.IntN(10) == 0 {
			s.timeMs -= r.rng.Int64N(20 * 3600_000)
		}
		w.add(s.key, s.timeMs, s.value)
		samples = append(samples, s)
	}
	err := w.send(ctx)
	r.oracle.wrote(samples, err)
	if err != nil && !errors.Is(err, series.ErrReadOnly) {
		return fmt.Errorf("not the kind of a failing disk: %w", err)
	}
	return err
}

func (r *run) delete(ctx context.Context) error {
	i := r.rng.IntN(30)
	from := r.now - r.rng.Int64N(4*3600_000)
	to := from + r.rng.Int64N(2*3600_000)
	_, err := r.node.Delete(ctx, &scan.Selector{
		Metric:   fmt.Sprintf("m%d", i%3),
		Matchers: []scan.Matcher{{Name: "host", Kind: scan.MatchEqual, Values: []string{fmt.Sprintf("h%d", i)}}},
	}, from, to)
	r.oracle.deleted(testKey(i), from, to, err)
	return err
}

// heal does what maintenance would do after a failure has passed.
func (r *run) heal() error {
	if r.node.loop.refusals.stalled.Load() == nil {
		return nil
	}
	return r.node.heal(context.Background())
}

// mustHold fails unless the node holds what it may.
func (r *run) mustHold(t *testing.T, when string) model {
	t.Helper()
	got := contents(t, r.node)
	if diff := r.oracle.differences(got); len(diff) > 0 {
		t.Fatalf("%s: %q; errors were %v", when, diff, r.errs[:min(len(r.errs), 5)])
	}
	return got
}

func TestOracleNoticesWhatIsWrong(t *testing.T) {
	o := newOracle()
	k := testKey(1)
	o.wrote([]sample{{k, 1, 1}, {k, 2, 2}}, nil)
	o.wrote([]sample{{k, 2, 20}, {k, 3, 30}}, errors.New("disk"))
	o.deleted(k, 1, 1, errors.New("disk"))
	good := []map[int64]float64{{1: 1, 2: 2}, {2: 20, 3: 30}, {1: 1, 2: 20}}
	bad := []map[int64]float64{{1: 1}, {1: 2, 2: 2}, {2: 2, 3: 31}, {1: 1, 2: 2, 4: 4}}
	for i, samples := range slices.Concat(good, bad) {
		got := model{}
		for at, v := range maps.All(samples) {
			got.put(k, at, v)
		}
		if diff := o.differences(got); (len(diff) == 0) != (i < len(good)) {
			t.Errorf("case %d: %q", i, diff)
		}
	}
}
