package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// sharedAccount notes what many goroutines are charged. It has room for all, unless wait is set.
type sharedAccount struct {
	wait func(ctx context.Context) error // nil: nobody waits
	turn chan struct{}

	mu        sync.Mutex // guards the rest
	awaits    int
	held, top int64
}

func (a *sharedAccount) Take(bytes int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held += bytes
	a.top = max(a.top, a.held)
	return nil
}

func (a *sharedAccount) Await(ctx context.Context, bytes int64) error {
	a.mu.Lock()
	a.awaits++
	a.mu.Unlock()
	if a.wait != nil {
		if err := a.wait(ctx); err != nil {
			return err
		}
	}
	return a.Take(bytes)
}

func (a *sharedAccount) Turn() chan struct{} { return a.turn }

func newSharedAccount(wait func(ctx context.Context) error) *sharedAccount {
	return &sharedAccount{wait: wait, turn: make(chan struct{}, 1)}
}

func (a *sharedAccount) Give(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held -= bytes
}

const longSamples, longStartMs = 50_000, int64(1_750_000_000_000)

// openLong returns an engine with so many series of 1,000 samples, and behind them some of longSamples+1 out of order.
func openLong(t *testing.T, short, long int) *Engine {
	t.Helper()
	e, err := Open(Options{FS: vfs.NewMemFS(), Dir: "/data", Shards: 1, SyncLog: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	index := uint64(0)
	write := func(key int, fromMs int64, count int) {
		var batch series.BatchEncoder
		only := batch.Define(benchKey(key))
		for i := range int64(count) {
			batch.Append(only, fromMs+i*1000, i%97, 1)
		}
		index++
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: index, Body: samplesBody(batch.AppendTo(nil))}); err != nil {
			t.Fatal(err)
		}
	}
	for key := range short {
		write(key, longStartMs, 1000)
	}
	for key := range long {
		write(short+key, longStartMs, longSamples)
		write(short+key, longStartMs+500, 1)
	}
	return e
}

func requestOf(a scan.Account, parallel int) *scan.Request {
	return &scan.Request{Selector: scan.Selector{Metric: "cpu.usage"}, ToMs: scan.TimeMsMax, Limits: scan.Limits{Account: a}, Parallel: parallel}
}

// TestOneLongSeriesAtATime: the workers of a scan hold no more of long series together than one alone would, and nothing for
// short ones.
func TestOneLongSeriesAtATime(t *testing.T) {
	e := openLong(t, 50, 8)
	alone := newSharedAccount(nil)
	for _, parallel := range []int{1, 4} {
		a := newSharedAccount(nil)
		var mu sync.Mutex
		samples := 0
		err := e.Scan(t.Context(), requestOf(a, parallel), func(_ int, chunk *scan.Chunk) error {
			mu.Lock()
			defer mu.Unlock()
			samples += len(chunk.Times)
			return nil
		})
		if err != nil || samples != 8*(longSamples+1)+50*1000 || a.held != 0 {
			t.Errorf("%d workers: %d samples, %v; %d bytes are left", parallel, samples, err, a.held)
		}
		if parallel == 1 {
			alone.top, alone.awaits = a.top, a.awaits
		}
		if a.top > alone.top || a.awaits > alone.awaits || a.awaits > 8*4 {
			t.Errorf("%d workers: %d bytes at most after %d charges, one alone %d after %d", parallel, a.top, a.awaits, alone.top, alone.awaits)
		}
	}
}

// TestStepsStreamLongSeries: steps at whole hours hold no more of a long series whose newest samples are in pages than other steps do,
// and have the ends of its segment beside them.
func TestStepsStreamLongSeries(t *testing.T) {
	l := newRollupLab(t, 1)
	put := func(fromMs, stepMs int64, count int) {
		var batch series.BatchEncoder
		only := batch.Define(benchKey(0))
		for i := range int64(count) {
			batch.Append(only, fromMs+i*stepMs, i*i%1009, 1)
		}
		l.apply(entry.Samples, samplesBody(batch.AppendTo(nil)))
	}
	const minutes = (rollupDays-1)*24*60 - 30 // pages begin within an hour
	put(rollupStartMs, 60_000, minutes)
	l.settle()
	put(rollupStartMs+minutes*60_000, 500, 4*longSamples)
	held := func(stepMs int64) (top int64) {
		a, before := newSharedAccount(nil), l.e.Stats().ScannedRollups
		request := requestOf(a, 1)
		request.ToMs = rollupStartMs + rollupDays*segment.DayMs
		model := modelOf(t, l.scanned(&scan.Request{ToMs: request.ToMs}))
		request.Steps = &scan.Steps{FirstMs: rollupStartMs, StepMs: stepMs, LastMs: request.ToMs, RangeMs: 2 * segment.HourMs, Function: scan.StepLast}
		l.compareWithModel(fmt.Sprintf("steps of %d ms", stepMs), request, model)
		if used := l.e.Stats().ScannedRollups - before; (used > 0) != (stepMs == segment.HourMs) {
			t.Errorf("steps of %d ms: %d rollups", stepMs, used)
		}
		return a.top
	}
	if samples, ends := held(segment.HourMs-1), held(segment.HourMs); ends > samples {
		t.Errorf("%d bytes are held for steps at hours, %d for others", ends, samples)
	}
}

// TestOneLongSeriesOfAQuery: likewise the scans of one query at once, which has one account.
func TestOneLongSeriesOfAQuery(t *testing.T) {
	const scans = 4
	e := openLong(t, 0, 2)
	alone, together := newSharedAccount(nil), newSharedAccount(nil)
	read := func(a *sharedAccount) error {
		return e.Scan(t.Context(), requestOf(a, 1), func(int, *scan.Chunk) error {
			runtime.Gosched() // others of the query may begin
			return nil
		})
	}
	if err := read(alone); err != nil {
		t.Fatal(err)
	}
	errs := make([]error, scans)
	var all sync.WaitGroup
	held := make(chan struct{})
	for i := range scans {
		all.Go(func() {
			<-held
			errs[i] = read(together)
		})
	}
	// Nobody gets the turn at first, so that more are there when it becomes free.
	together.turn <- struct{}{}
	close(held)
	<-together.turn
	all.Wait()
	if err := errors.Join(errs...); err != nil || together.top > alone.top || together.held != 0 {
		t.Errorf("%d scans of one query: %v; %d bytes at most, one alone %d; %d are left", scans, err, together.top, alone.top, together.held)
	}
}

// TestTurnsEndWithTheScan: a scan, or a Last, that waits for the turn of another scan of its query holds nothing that is charged, and
// ends with its context and with its visitor; whoever waits next gets the turn.
func TestTurnsEndWithTheScan(t *testing.T) {
	e := openLong(t, 1, 3)
	a := newSharedAccount(nil)
	a.turn <- struct{}{} // of another scan, which never ends
	reads := map[string]func(context.Context) error{
		"scan": func(ctx context.Context) error {
			return e.Scan(ctx, requestOf(a, 4), func(int, *scan.Chunk) error { return nil })
		},
		"last": func(ctx context.Context) error {
			r := requestOf(a, 1)
			return e.Last(ctx, &r.Selector, 0, r.Limits, func(scan.Point) error { return nil })
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- reads["scan"](ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || a.held != 0 {
		t.Errorf("canceled: %v, %d bytes are held", err, a.held)
	}
	if err := e.Scan(t.Context(), requestOf(a, 4), func(int, *scan.Chunk) error { return scan.ErrStopped }); err != nil || a.held != 0 {
		t.Errorf("a visitor has had enough: %v, %d bytes are held", err, a.held)
	}
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = reads[[]string{"scan", "last"}[i%2]](t.Context()) })
	}
	<-a.turn
	all.Wait()
	if err := errors.Join(errs...); err != nil || a.held != 0 || len(a.turn) != 0 {
		t.Errorf("afterwards: %v, %d bytes are held, %d has the turn", err, a.held, len(a.turn))
	}
}

// TestWaitsEndWithTheScan: a worker that waits for memory does not keep a scan whose visitor has had enough.
func TestWaitsEndWithTheScan(t *testing.T) {
	e := openLong(t, 1, 3)
	waiting := make(chan struct{}, 8)
	a := newSharedAccount(func(ctx context.Context) error {
		waiting <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	for _, wrong := range []error{scan.ErrStopped, errAccount} {
		err := e.Scan(t.Context(), requestOf(a, 4), func(int, *scan.Chunk) error {
			<-waiting
			return wrong
		})
		if wrong == scan.ErrStopped { //nolint:errorlint // this very value
			wrong = nil
		}
		if !errors.Is(err, wrong) || errors.Is(err, context.Canceled) || a.held != 0 {
			t.Errorf("got %v, want %v; %d bytes are left", err, wrong, a.held)
		}
	}
}

// TestDensePagesBehindSparseOnes: what is reserved for a series whose later pages have more points to a byte grows in few steps.
func TestDensePagesBehindSparseOnes(t *testing.T) {
	e := openLong(t, 0, 0)
	random := rand.New(rand.NewPCG(1, 2))
	var samples int64
	for index := range uint64(100) {
		var batch series.BatchEncoder
		only := batch.Define(benchKey(0))
		for i := range 2000 {
			value := int64(i)
			if uint64(random.IntN(100)) > index { // ever fewer are random
				value = random.Int64()
			}
			batch.Append(only, longStartMs-samples*1000, value, 1)
			samples++
		}
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: index + 1, Body: samplesBody(batch.AppendTo(nil))}); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := newSharedAccount(nil)
	read := int64(0)
	err := e.Scan(t.Context(), requestOf(a, 1), func(_ int, chunk *scan.Chunk) error {
		read += int64(len(chunk.Times))
		return nil
	})
	runtime.ReadMemStats(&after)
	if err != nil || read != samples {
		t.Fatalf("%d samples of %d: %v", read, samples, err)
	}
	if made := int64(after.TotalAlloc - before.TotalAlloc); made > 8*a.top {
		t.Errorf("%d bytes were allocated for a series that holds %d at most", made, a.top)
	}
}

// TestPagesAreChargedBeforeTheyAreCopied: a query that gets no memory has not copied the pages of a long series either.
func TestPagesAreChargedBeforeTheyAreCopied(t *testing.T) {
	e := openLong(t, 0, 0)
	random := rand.New(rand.NewPCG(3, 4))
	const entries, entrySamples = 100, 10_000 // of 8 bytes or so each
	for index := range uint64(entries) {
		var batch series.BatchEncoder
		only := batch.Define(benchKey(0))
		for i := range int64(entrySamples) {
			batch.Append(only, longStartMs+(int64(index)*entrySamples+i)*1000, random.Int64(), 1)
		}
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: index + 1, Body: samplesBody(batch.AppendTo(nil))}); err != nil {
			t.Fatal(err)
		}
	}
	full := newSharedAccount(func(context.Context) error { return errAccount })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := e.Scan(t.Context(), requestOf(full, 1), func(int, *scan.Chunk) error { return nil })
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errAccount) || full.held != 0 {
		t.Errorf("%v; %d bytes are left", err, full.held)
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 4<<20 { // the pages have 8 MB
		t.Errorf("%d bytes were allocated for a series that was refused", made)
	}
	a, samples := newSharedAccount(nil), 0
	err = e.Scan(t.Context(), requestOf(a, 1), func(_ int, chunk *scan.Chunk) error {
		samples += len(chunk.Times)
		return nil
	})
	if err != nil || samples != entries*entrySamples || a.held != 0 || a.top < 8*entries*entrySamples {
		t.Errorf("with memory: %d samples, %v; %d bytes at most, %d are left", samples, err, a.top, a.held)
	}
}
