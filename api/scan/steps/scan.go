package steps

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Reader is what samples are read from.
type Reader interface {
	Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error
	Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error
}

// Scan answers a request for steps by the samples of a reader, as scan.Source has it. Limits of
// the request bound what is read; BytesMax also bounds what is held here, which is charged to the
// account. Groups are
// folded over shards; what is visited of them has no Ref.
func Scan(ctx context.Context, reader Reader, request *scan.Request, visit scan.Visitor) error {
	return ScanShort(ctx, reader, request, visit, nil)
}

// About what a value at a step and a sample take where they are sent.
const (
	valueBytes  = 9
	sampleBytes = 11
)

// ScanShort is Scan for answers that are sent: the samples of a series that take fewer bytes
// than its values at the steps go to samples, in one chunk, so that whoever has asked makes
// the values. Samples that no step can see may be among them. Series of one shard are
// visited one after the other, and its groups behind them, where the reader's series are in order
// of their shards.
func ScanShort(ctx context.Context, reader Reader, request *scan.Request, visit, samples scan.Visitor) error {
	if err := request.Steps.Check(); err != nil {
		return err
	}
	if request.FromMs > request.ToMs {
		return nil
	}
	if s := request.Steps; s.Fold != nil && s.Function == scan.StepNewest && s.Count() == 1 {
		if whole, err := foldLast(ctx, reader, request, visit, samples != nil); whole || err != nil {
			return unlessStopped(err)
		}
	}
	run := &scanRun{request: request, visit: visit, samples: samples}
	workers := make([]*worker, max(1, request.Parallel))
	defer func() {
		for _, w := range workers {
			if w != nil {
				w.account.Close()
			}
		}
	}()
	plain := *request
	plain.Steps, plain.EndsOfMs = nil, endsSeenBy(request.Steps)
	err := reader.Scan(ctx, &plain, func(n int, chunk *scan.Chunk) error {
		if workers[n] == nil {
			workers[n] = newWorker(ctx, run, n)
		}
		return run.note(workers[n].take(chunk))
	})
	if err != nil || run.stopped.Load() {
		return err
	}
	for _, w := range workers {
		if w == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.end(); err != nil {
			return unlessStopped(err)
		}
	}
	return nil
}

// endsSeenBy returns the width of the hours or days whose first and last samples are enough: with these alone the results are
// the same. 0: all samples are needed. The newest sample at a whole hour is the first of that hour, where it has that very time, or else
// the last of an hour before; and where a step sees any sample, it sees the newest one.
func endsSeenBy(s *scan.Steps) int64 {
	switch s.Function {
	case scan.StepNewest, scan.StepLast, scan.StepPresent:
	default:
		return 0
	}
	for _, widthMs := range [...]int64{scan.DayMs, scan.HourMs} {
		if s.FirstMs%widthMs == 0 && (s.StepMs%widthMs == 0 || s.FirstMs == s.LastMs) {
			return widthMs
		}
	}
	return 0
}

func unlessStopped(err error) error {
	if errors.Is(err, scan.ErrStopped) {
		return nil
	}
	return err
}

// scanRun is one Scan under way.
type scanRun struct {
	request        *scan.Request
	visit, samples scan.Visitor
	held           atomic.Int64
	stopped        atomic.Bool
}

// byShard reports whether the groups of each shard are visited by themselves.
func (r *scanRun) byShard() bool { return r.samples != nil }

// note remembers that a visitor wants no more: the reader ends without an error then.
func (r *scanRun) note(err error) error {
	if errors.Is(err, scan.ErrStopped) {
		r.stopped.Store(true)
	}
	return err
}

// worker evaluates the series of one visitor of the reader.
type worker struct {
	run       *scanRun
	number    int
	evaluator *Evaluator
	folder    *Folder // nil: series stay apart
	key       series.Key
	ref       series.Ref
	open      bool
	held      int64
	account   scan.Holding

	times   []int64 // samples of the open series, while they may be fewer bytes than its values
	values  []float64
	tooMany bool // they are not

	chunk scan.Chunk // for visits
}

func newWorker(ctx context.Context, run *scanRun, number int) *worker {
	w := &worker{run: run, number: number, evaluator: NewEvaluator(ctx, run.request.Steps), account: scan.Holding{Account: run.request.Limits.Account}}
	if run.request.Steps.Fold != nil {
		w.folder = NewFolder(run.request.Steps)
	}
	return w
}

// take takes a stretch of samples of a series.
func (w *worker) take(chunk *scan.Chunk) error {
	if !w.open || !bytes.Equal(w.key, chunk.Key) {
		if err := w.finish(); err != nil {
			return err
		}
		if w.folder != nil && (w.run.byShard() && chunk.Ref.Shard != w.ref.Shard || w.folder.Bytes() > folderBytesMax) {
			if err := w.flush(); err != nil {
				return err
			}
		}
		w.key, w.ref, w.open = append(w.key[:0], chunk.Key...), chunk.Ref, true
		w.evaluator.Begin()
		w.times, w.values, w.tooMany = w.times[:0], w.values[:0], false
	}
	if err := w.run.request.ReadSamples(int64(len(chunk.Times))); err != nil {
		return err
	}
	if err := w.evaluator.Add(chunk.Times, chunk.Values); err != nil {
		return err
	}
	w.hold(chunk)
	return w.charge()
}

// hold keeps samples that may be sent themselves.
func (w *worker) hold(chunk *scan.Chunk) {
	if w.run.samples == nil || w.folder != nil || w.tooMany || w.evaluator.function == nil {
		return
	}
	if sampleBytes*(len(w.times)+len(chunk.Times)) >= valueBytes*w.run.request.Steps.Count() {
		w.tooMany = true
		return
	}
	w.times, w.values = append(w.times, chunk.Times...), append(w.values, chunk.Values...)
}

// folderBytesMax bounds the groups that wait for more series: then they are visited, and begun
// anew. So what is held does not follow from how many groups there are.
const folderBytesMax = 1 << 20

// charge holds what the worker has to the limit of the request.
func (w *worker) charge() error {
	held := int64(w.evaluator.Bytes() + 8*(cap(w.times)+cap(w.values)))
	if w.folder != nil {
		held += int64(w.folder.Bytes())
	}
	if held == w.held {
		return nil
	}
	all := w.run.held.Add(held - w.held)
	w.held = held
	if limit := w.run.request.Limits.BytesMax; limit > 0 && all > limit {
		return &scan.LimitError{What: "bytes", Limit: limit}
	}
	return w.account.Hold(held)
}

// finish visits the open series, or folds it into its group.
func (w *worker) finish() error {
	if !w.open {
		return nil
	}
	w.open = false
	times, values, err := w.evaluator.End()
	if err != nil || len(times) == 0 {
		return err
	}
	if w.folder != nil {
		if ok, err := w.folder.Add(w.key, times, values); ok || err != nil {
			return err
		}
	}
	visit := w.run.visit
	if w.run.samples != nil && w.folder == nil && (w.evaluator.function == nil || !w.tooMany && sampleBytes*len(w.times) < valueBytes*len(times)) {
		if visit = w.run.samples; w.evaluator.function != nil {
			times, values = w.times, w.values
		}
	}
	w.chunk = scan.Chunk{Key: w.key, Ref: w.ref, Times: times, Values: values}
	return visit(w.number, &w.chunk)
}

// flush visits the groups.
func (w *worker) flush() error {
	ref := series.Ref{}
	if w.run.byShard() {
		ref.Shard = w.ref.Shard
	}
	return w.folder.Visit(ref, func(chunk *scan.Chunk) error { return w.run.visit(w.number, chunk) })
}

// end visits what is left, once the reader has no more.
func (w *worker) end() error {
	if err := w.finish(); err != nil || w.folder == nil {
		return err
	}
	return w.flush()
}

// foldLastBytesMax bounds the groups of newest samples, which cannot be visited before all samples
// are known to be old enough.
const foldLastBytesMax = 32 << 20

// foldLast folds the newest samples of series, which storage may know without reading samples.
// Not whole: samples have to be read, as a series has a younger one than the step, or as
// there are too many groups. Groups are of all shards, or of each.
func foldLast(ctx context.Context, reader Reader, request *scan.Request, visit scan.Visitor, byShard bool) (whole bool, err error) {
	l := &lastFold{request: request, byShard: byShard, folders: map[uint16]*Folder{}, bytesMax: foldLastBytesMax, account: scan.Holding{Account: request.Limits.Account}}
	defer l.account.Close()
	if limit := request.Limits.BytesMax; limit > 0 {
		l.bytesMax = int(min(limit, foldLastBytesMax))
	}
	if err = reader.Last(ctx, &request.Selector, request.FromMs, request.Limits, l.add); err != nil || l.short {
		return false, err
	}
	if err := request.ReadSamples(l.points); err != nil {
		return true, err
	}
	for _, shard := range slices.Sorted(maps.Keys(l.folders)) {
		ref := series.Ref{Shard: shard}
		if err := l.folders[shard].Visit(ref, func(chunk *scan.Chunk) error { return visit(0, chunk) }); err != nil {
			return true, err
		}
	}
	return true, nil
}

// lastFold is groups of newest samples.
type lastFold struct {
	request  *scan.Request
	byShard  bool // else all are in the folder of shard 0
	folders  map[uint16]*Folder
	bytes    int
	bytesMax int
	points   int64
	account  scan.Holding
	short    bool // samples have to be read

	times  [1]int64
	values [1]float64
}

func (l *lastFold) add(p scan.Point) error {
	if l.short = p.TimeMs > min(l.request.Steps.LastMs, l.request.ToMs) || l.bytes > l.bytesMax; l.short {
		return scan.ErrStopped
	}
	l.points++
	shard := uint16(0)
	if l.byShard {
		shard = p.Ref.Shard
	}
	f := l.folders[shard]
	if f == nil {
		f = NewFolder(l.request.Steps)
		l.folders[shard] = f
	}
	l.bytes -= f.Bytes()
	l.times[0], l.values[0] = p.TimeMs, p.Value
	_, err := f.Add(p.Key, l.times[:], l.values[:])
	l.bytes += f.Bytes()
	if err != nil {
		return err
	}
	if err = l.account.Hold(int64(l.bytes)); errors.As(err, new(*scan.LimitError)) {
		l.short = true // samples are read with fewer groups at once
		return scan.ErrStopped
	}
	return err
}
