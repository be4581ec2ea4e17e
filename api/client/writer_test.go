package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/api/apitest"
)

func newWriter(t testing.TB, c *client.Client, o client.WriterOptions) *client.Writer {
	t.Helper()
	w, err := c.NewWriter(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// sameSamples compares bit by bit.
func sameSamples(a, b map[string]map[int64]float64) bool {
	return maps.EqualFunc(a, b, func(x, y map[int64]float64) bool {
		return maps.EqualFunc(x, y, func(v, w float64) bool { return math.Float64bits(v) == math.Float64bits(w) })
	})
}

// TestWriterOracle writes random samples, many of them again with another value,
// while storage fails in every way that it may and after each there is no telling
// whether it had applied the batch. What is there at the end must be what a map has,
// bit by bit, and every batch must have been applied once.
func TestWriterOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		storage := apitest.NewStorage(rapid.SampledFrom([]int{1, 3, 16}).Draw(rt, "shards"))
		o := client.Options{RetryDelayMin: time.Microsecond, RetryDelayMax: time.Millisecond}
		for range 2 {
			s, err := apitest.Start(apitest.Options(storage), "")
			if err != nil {
				rt.Fatal(err)
			}
			defer s.Kill()
			o.Endpoints = append(o.Endpoints, s.Address)
		}
		c, err := client.New(o)
		if err != nil {
			rt.Fatal(err)
		}
		defer c.Close()
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "faults"), 0))
		var mu sync.Mutex
		storage.SetHook(func(_ *series.Frame, apply func() (series.Outcome, error)) (series.Outcome, error) {
			mu.Lock()
			fault := rnd.IntN(9)
			mu.Unlock()
			switch fault {
			case 0:
				return series.Outcome{}, series.ErrUnavailable
			case 1:
				return series.Outcome{}, fmt.Errorf("%w: later", series.ErrOverloaded)
			case 2: // applied, and nobody is told
				_, _ = apply()
				return series.Outcome{}, errors.New("the answer is lost")
			case 3: // and all ids mean other series
				storage.Renumber()
			}
			return apply()
		})
		ctx, cancel := context.WithTimeout(t.Context(), waitMax)
		defer cancel()
		w := newWriter(t, c, client.WriterOptions{
			BatchPoints: rapid.IntRange(1, 20).Draw(rt, "batch"), BatchBytes: rapid.IntRange(1, 2000).Draw(rt, "bytes"), BatchDelay: time.Hour,
		})
		want, count := map[string]map[int64]float64{}, 0
		for range rapid.IntRange(1, 100).Draw(rt, "samples") {
			s := client.MustSeries("m", client.Tag{Name: "n", Value: fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "series"))})
			ms := rapid.Int64Range(0, 5).Draw(rt, "ms")
			v := math.Float64frombits(rapid.Uint64().Draw(rt, "value"))
			if err := w.Append(ctx, s, ms, v); err != nil {
				rt.Fatal(err)
			}
			if want[string(s.Key())] == nil {
				want[string(s.Key())] = map[int64]float64{}
			}
			want[string(s.Key())][ms] = v
			count++
			if rapid.IntRange(0, 20).Draw(rt, "flush") == 0 {
				if err := w.Flush(ctx); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if err := w.Close(ctx); err != nil {
			rt.Fatal(err)
		}
		if got := samples(ctx, t, c); !sameSamples(got, want) {
			rt.Fatalf("got %v, want %v", got, want)
		}
		if storage.Points() != count {
			rt.Fatalf("%d points were applied, %d written", storage.Points(), count)
		}
	})
}

// TestRoutersDie kills and starts servers while several goroutines write.
func TestRoutersDie(t *testing.T) {
	storage := apitest.NewStorage(4)
	c, servers := start(t, storage, 3, nil)
	ctx := background(t)
	w := newWriter(t, c, client.WriterOptions{BatchPoints: 10, BatchesInFlight: 4, BatchDelay: time.Millisecond})
	const writers, each = 4, 500
	var written atomic.Int64
	var writing sync.WaitGroup
	for n := range writers {
		s := client.MustSeries("m", client.Tag{Name: "writer", Value: fmt.Sprint(n)})
		writing.Go(func() {
			for i := range each {
				if err := w.Append(ctx, s, int64(i), float64(i)); err != nil {
					t.Error(err)
					return
				}
				written.Add(1)
			}
		})
	}
	for round := range 6 {
		for storage.Points() < (round+1)*100 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		n := round % len(servers)
		if round%2 == 0 {
			servers[n].Kill()
		} else {
			servers[n].Stop()
		}
		s, err := apitest.Start(apitest.Options(storage), servers[n].Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		servers[n] = s
	}
	writing.Wait()
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got := samples(ctx, t, c)
	if len(got) != writers || storage.Points() != writers*each {
		t.Fatalf("%d series, %d points", len(got), storage.Points())
	}
	for key, values := range got {
		if len(values) != each {
			t.Errorf("%v has %d samples", series.Key(key), len(values))
		}
	}
}

// TestBackpressure holds the answers back until the buffer is full.
func TestBackpressure(t *testing.T) {
	storage := apitest.NewStorage(1)
	c, _ := start(t, storage, 1, nil)
	ctx := background(t)
	s := client.MustSeries("m")
	release := make(chan struct{})
	storage.SetHook(func(_ *series.Frame, apply func() (series.Outcome, error)) (series.Outcome, error) {
		<-release
		return apply()
	})
	failing := newWriter(t, c, client.WriterOptions{BatchPoints: 2, BufferPoints: 6, FailWhenFull: true})
	waiting := newWriter(t, c, client.WriterOptions{BatchPoints: 2, BufferPoints: 6})
	for i := range 6 {
		if err := errors.Join(failing.Append(ctx, s, int64(i), 1), waiting.Append(ctx, s, int64(i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := failing.Append(ctx, s, 6, 1); !errors.Is(err, client.ErrBufferFull) {
		t.Errorf("a full buffer: %v", err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := waiting.Append(short, s, 6, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a full buffer, and the caller gives up: %v", err)
	}
	if failing.Buffered() != 6 || waiting.Buffered() != 6 {
		t.Errorf("%d and %d samples are held", failing.Buffered(), waiting.Buffered())
	}
	waited := make(chan error)
	go func() { waited <- waiting.Append(ctx, s, 6, 1) }()
	close(release)
	if err := errors.Join(<-waited, waiting.Close(ctx), failing.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	if got := samples(ctx, t, c); len(got[string(s.Key())]) != 7 {
		t.Errorf("%v", got)
	}
	if err := waiting.Append(ctx, s, 7, 1); !errors.Is(err, client.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := waiting.Close(ctx); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestBatchDelay: what is gathered is sent without a Flush.
func TestBatchDelay(t *testing.T) {
	storage := apitest.NewStorage(1)
	c, _ := start(t, storage, 1, nil)
	ctx := background(t)
	w := newWriter(t, c, client.WriterOptions{BatchDelay: time.Millisecond})
	for i := range 3 {
		if err := w.Append(ctx, client.MustSeries("m"), int64(i), 1); err != nil {
			t.Fatal(err)
		}
		for storage.Points() <= i && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	if err := w.Close(ctx); err != nil || storage.Points() != 3 {
		t.Errorf("%d points, %v", storage.Points(), err)
	}
}

// TestGivingUp closes a writer whose storage never answers.
func TestGivingUp(t *testing.T) {
	storage := apitest.NewStorage(1)
	c, _ := start(t, storage, 1, nil)
	storage.SetHook(func(*series.Frame, func() (series.Outcome, error)) (series.Outcome, error) {
		return series.Outcome{}, series.ErrUnavailable
	})
	var told atomic.Int64
	w := newWriter(t, c, client.WriterOptions{BatchPoints: 3, OnError: func(error) { told.Add(1) }})
	for i := range 9 {
		if err := w.Append(t.Context(), client.MustSeries("m"), int64(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := w.Close(ctx)
	lost, ok := errors.AsType[*client.WriteError](err)
	if !ok || lost.Points != 9 || lost.Total != 3 || told.Load() != 3 {
		t.Errorf("%v, %d told", err, told.Load())
	}
}

// TestRefusals has one series that the server's limits refuse, one that storage
// refuses for ever, and one that it refuses for now.
func TestRefusals(t *testing.T) {
	storage := apitest.NewStorage(1)
	c, _ := start(t, storage, 1, nil)
	ctx := background(t)
	long := client.MustSeries("long", client.Tag{Name: "t", Value: string(make([]byte, 9<<10))})
	good, never, later := client.MustSeries("good"), client.MustSeries("never"), client.MustSeries("later")
	var calls atomic.Int64
	storage.SetHook(func(frame *series.Frame, apply func() (series.Outcome, error)) (series.Outcome, error) {
		if calls.Add(1) > 1 {
			return apply()
		}
		// The definitions of the first frame are good, never, later, in this order;
		// only good is taken.
		var r series.BatchReader
		r.Reset(frame.Parts[0].Batch)
		var e series.BatchEncoder
		for key, ok := r.NextDefinition(); ok; key, ok = r.NextDefinition() {
			if string(key) == string(good.Key()) {
				e.Define(key)
			}
		}
		n := 0
		for r.NextPoint() {
			if r.Ref == uint32(series.SlotBase) {
				e.Append(series.SlotBase, r.TimeMs, r.Mantissa, r.Scale)
				n++
			}
		}
		frame.Parts[0].Batch, frame.Points = e.AppendTo(nil), n
		outcome, err := apply()
		outcome.Refused = []series.Refusal{{Definition: 1, Err: series.ErrSeriesLimit}, {Definition: 2, Err: series.ErrSeriesRate}}
		return outcome, err
	})
	w := newWriter(t, c, client.WriterOptions{})
	for i := range 2 {
		for _, s := range []*client.Series{good, never, long, later} {
			if err := w.Append(ctx, s, int64(i), float64(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	lost, ok := errors.AsType[*client.WriteError](w.Flush(ctx))
	if !ok || lost.Points != 4 || lost.Total != 2 {
		t.Fatalf("lost: %+v", lost)
	}
	for i, want := range []struct {
		series *client.Series
		kind   error
	}{{never, client.ErrSeriesLimit}, {long, client.ErrInvalid}} {
		refused, ok := errors.AsType[*client.RefusedError](lost.Errors[i])
		if !ok || refused.Series != want.series || refused.Points != 2 || !errors.Is(refused, want.kind) {
			t.Errorf("%v, want %v of %v", lost.Errors[i], want.kind, want.series.Metric())
		}
	}
	if err := w.Close(ctx); err != nil {
		t.Error(err)
	}
	if got := samples(ctx, t, c); len(got) != 2 || len(got[string(good.Key())]) != 2 || len(got[string(later.Key())]) != 2 {
		t.Errorf("%v", got)
	}
}

// TestWrite is the write that waits.
func TestWrite(t *testing.T) {
	storage := apitest.NewStorage(4)
	c, _ := start(t, storage, 2, nil)
	ctx := background(t)
	var list []client.Sample
	want := map[string]map[int64]float64{}
	for i := range 60_000 { // more than one batch
		s := client.MustSeries("m", client.Tag{Name: "n", Value: fmt.Sprint(i % 100)})
		list = append(list, client.Sample{Series: s, TimeMs: int64(i), Value: float64(i) / 10})
		if want[string(s.Key())] == nil {
			want[string(s.Key())] = map[int64]float64{}
		}
		want[string(s.Key())][int64(i)] = float64(i) / 10
	}
	var calls atomic.Int64
	storage.SetHook(func(_ *series.Frame, apply func() (series.Outcome, error)) (series.Outcome, error) {
		if calls.Add(1)%2 == 1 {
			_, _ = apply()
			return series.Outcome{}, series.ErrUnavailable
		}
		return apply()
	})
	if err := c.Write(ctx, list...); err != nil {
		t.Fatal(err)
	}
	if got := samples(ctx, t, c); !sameSamples(got, want) || storage.Points() != len(list) {
		t.Errorf("%d series, %d points", len(got), storage.Points())
	}
	if err := c.Write(ctx, client.Sample{Series: list[0].Series, TimeMs: math.MaxInt64}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a time out of range: %v", err)
	}
	storage.SetHook(func(*series.Frame, func() (series.Outcome, error)) (series.Outcome, error) {
		return series.Outcome{}, fmt.Errorf("%w: the disk is full", series.ErrReadOnly)
	})
	if err := c.Write(ctx, list[0]); !errors.Is(err, client.ErrReadOnly) {
		t.Errorf("a full disk: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []client.Options{
		{}, {Endpoints: []string{"a:1", ""}}, {Endpoints: []string{"a:1"}, WriteTimeout: -1}, {Endpoints: []string{"a:1"}, RetryDelayMin: time.Hour},
	} {
		if _, err := client.New(o); !errors.Is(err, client.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	c, _ := start(t, apitest.NewStorage(1), 1, nil)
	for _, o := range []client.WriterOptions{{BatchPoints: -1}, {BatchBytes: 1 << 30}, {BatchesInFlight: 100}, {BufferPoints: -1}, {BatchDelay: -1}} {
		if _, err := c.NewWriter(o); !errors.Is(err, client.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestClosedClient: nothing waits for a client that is closed.
func TestClosedClient(t *testing.T) {
	c, err := client.New(client.Options{Endpoints: []string{"127.0.0.1:1"}}) // nobody listens
	if err != nil {
		t.Fatal(err)
	}
	w := newWriter(t, c, client.WriterOptions{})
	if err := w.Append(t.Context(), client.MustSeries("m"), 1, 1); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() { failed <- c.Write(t.Context(), client.Sample{Series: client.MustSeries("m")}) }()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("a write without a server succeeds")
	}
	if err := w.Close(t.Context()); err == nil {
		t.Error("a sample is lost and nobody says so")
	}
	if _, err := c.NewWriter(client.WriterOptions{}); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a writer of a closed client: %v", err)
	}
}

// TestWriteLevel: the level travels, and a batch that has too few copies is sent again
// under its id until it has all of them.
func TestWriteLevel(t *testing.T) {
	storage := apitest.NewStorage(4)
	s, err := apitest.Start(apitest.Options(storage), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	var mu sync.Mutex
	ids := map[series.BatchID]int{}
	storage.SetHook(func(frame *series.Frame, apply func() (series.Outcome, error)) (series.Outcome, error) {
		mu.Lock()
		defer mu.Unlock()
		if frame.Level != series.LevelAll {
			t.Errorf("level %d", frame.Level)
		}
		ids[frame.ID]++
		outcome, err := apply()
		if err == nil && ids[frame.ID] < 3 {
			err = &series.CopiesError{Copies: 1, Missing: 1}
		}
		return outcome, err
	})
	c, err := client.New(client.Options{
		Endpoints: []string{s.Address}, WriteLevel: series.LevelAll, RetryDelayMin: time.Microsecond, RetryDelayMax: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := newWriter(t, c, client.WriterOptions{})
	one, err := client.NewSeries("m")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(t.Context(), one, 1, 2); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, times := range ids {
		if times != 3 || len(ids) != 1 {
			t.Errorf("batch %v was sent %d times, of %d batches", id, times, len(ids))
		}
	}
	if _, err := client.New(client.Options{Endpoints: []string{s.Address}, WriteLevel: series.LevelAll + 1}); !errors.Is(err, client.ErrOptions) {
		t.Error(err)
	}
}
