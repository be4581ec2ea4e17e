package scantest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Memory is a scan.Source and scan.Deleter over a map. It is written to be
// read, not to be fast. It is safe for concurrent use, and a visitor may call
// it again.
type Memory struct {
	mu     sync.Mutex
	series map[string]map[int64]float64 // by key, then by time in milliseconds
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{series: map[string]map[int64]float64{}} }

// Put writes samples of one series; of equal times the later one stays. It
// returns series.ErrKey for a key that is not canonical.
func (m *Memory) Put(key series.Key, samples ...series.Sample) error {
	if _, _, _, err := key.Parts(nil); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	values := m.series[string(key)]
	if values == nil {
		values = map[int64]float64{}
		m.series[string(key)] = values
	}
	for _, s := range samples {
		values[s.TimeMs] = s.Value
	}
	return nil
}

// Delete implements scan.Deleter. A series counts as touched when at least one
// of its samples is gone.
func (m *Memory) Delete(ctx context.Context, selector *scan.Selector, fromMs, toMs int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	keys, err := m.match(selector)
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var touched int64
	for _, key := range keys {
		values := m.series[string(key)]
		before := len(values)
		for timeMs := range values {
			if timeMs >= fromMs && timeMs <= toMs {
				delete(values, timeMs)
			}
		}
		if len(values) < before {
			touched++
		}
	}
	return touched, nil
}

// match returns the keys that a selector picks, in order.
func (m *Memory) match(selector *scan.Selector) ([]series.Key, error) {
	matches, err := compile(selector)
	if err != nil {
		return nil, err
	}
	var keys []series.Key
	for _, key := range m.keys() {
		if matches(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (m *Memory) keys() []series.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := make([]series.Key, 0, len(m.series))
	for key := range m.series {
		keys = append(keys, series.Key(key))
	}
	slices.SortFunc(keys, func(a, b series.Key) int { return bytes.Compare(a, b) })
	return keys
}

// samples returns a copy of the samples of one series in [fromMs, toMs], by time.
func (m *Memory) samples(key series.Key, fromMs, toMs int64) []series.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []series.Sample
	for timeMs, value := range m.series[string(key)] {
		if timeMs >= fromMs && timeMs <= toMs {
			found = append(found, series.Sample{TimeMs: timeMs, Value: value})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].TimeMs < found[j].TimeMs })
	return found
}

// Scan implements scan.Source.
func (m *Memory) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	if w := request.Windows; w != nil && w.WidthMs <= 0 {
		return fmt.Errorf("a window is %d ms wide", w.WidthMs)
	}
	if request.Steps != nil {
		if err := request.Steps.Check(); err != nil {
			return err
		}
	}
	keys, err := m.match(&request.Selector)
	if err != nil {
		return err
	}
	if limit := request.Limits.SeriesMax; limit > 0 && int64(len(keys)) > limit {
		return &scan.LimitError{What: "series", Limit: limit}
	}
	if request.Steps != nil && request.Steps.Fold != nil {
		return m.fold(ctx, request, keys, visit)
	}
	run := scanRun{memory: m, request: request, visit: visit}
	workers := max(1, request.Parallel)
	results := make([]error, workers)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := worker; i < len(keys) && results[worker] == nil; i += workers {
				results[worker] = run.one(ctx, worker, keys[i])
			}
			if results[worker] != nil {
				cancel(results[worker])
			}
		}()
	}
	wait.Wait()
	if len(keys) == 0 {
		return ctx.Err()
	}
	if err = context.Cause(ctx); errors.Is(err, scan.ErrStopped) {
		return nil
	}
	return err
}

// fold visits the groups of some series, by worker 0.
func (m *Memory) fold(ctx context.Context, request *scan.Request, keys []series.Key, visit scan.Visitor) error {
	var chunks []*scan.Chunk
	total := 0
	for _, key := range keys {
		samples := m.samples(key, request.FromMs, request.ToMs)
		if total += len(samples); request.Limits.SamplesMax > 0 && int64(total) > request.Limits.SamplesMax {
			return &scan.LimitError{What: "samples", Limit: request.Limits.SamplesMax}
		}
		if err := request.ReadSamples(int64(len(samples))); err != nil {
			return err
		}
		c := stepChunk(samples, request.Steps)
		c.Key = slices.Clone(key)
		chunks = append(chunks, c)
	}
	for _, c := range foldChunks(chunks, request.Steps) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(c.Times) == 0 {
			continue
		}
		if err := visit(0, c); errors.Is(err, scan.ErrStopped) {
			return nil
		} else if err != nil {
			return err
		}
		scribble(c)
	}
	return ctx.Err()
}

// scanRun is one Scan under way.
type scanRun struct {
	memory  *Memory
	request *scan.Request
	visit   scan.Visitor

	mu      sync.Mutex
	samples int64 // read so far
}

// chunkLength is small, so that tests see series of several chunks.
const chunkLength = 100

func (r *scanRun) one(ctx context.Context, worker int, key series.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	samples := r.memory.samples(key, r.request.FromMs, r.request.ToMs)
	r.mu.Lock()
	r.samples += int64(len(samples))
	total := r.samples
	r.mu.Unlock()
	if limit := r.request.Limits.SamplesMax; limit > 0 && total > limit {
		return &scan.LimitError{What: "samples", Limit: limit}
	}
	var whole *scan.Chunk
	switch {
	case r.request.Steps != nil:
		if err := r.request.ReadSamples(int64(len(samples))); err != nil {
			return err
		}
		whole = stepChunk(samples, r.request.Steps)
	case r.request.Windows != nil:
		whole = windowChunk(samples, r.request.Windows)
	default:
		whole = sampleChunk(samples)
	}
	for from := 0; from < len(whole.Times); from += chunkLength {
		part := slice(whole, from, min(from+chunkLength, len(whole.Times)))
		part.Key = slices.Clone(key)
		if err := r.visit(worker, part); err != nil {
			return err
		}
		scribble(part)
	}
	return nil
}

// scribble spoils a chunk that has been visited, for visitors that keep it.
func scribble(c *scan.Chunk) {
	for i := range c.Key {
		c.Key[i] = 0xff
	}
	for i := range c.Times {
		c.Times[i] = math.MinInt64
	}
	for i := range c.Values {
		c.Values[i] = -12345.6789
	}
}

func slice(c *scan.Chunk, from, to int) *scan.Chunk {
	return &scan.Chunk{
		Times: c.Times[from:to], Values: part(c.Values, from, to),
		Sum: part(c.Sum, from, to), Min: part(c.Min, from, to), Max: part(c.Max, from, to),
		First: part(c.First, from, to), Last: part(c.Last, from, to), Count: part(c.Count, from, to),
		Digest: part(c.Digest, from, to),
	}
}

func part[T any](all []T, from, to int) []T {
	if all == nil {
		return nil
	}
	return all[from:to]
}

func sampleChunk(samples []series.Sample) *scan.Chunk {
	c := &scan.Chunk{}
	for _, s := range samples {
		c.Times = append(c.Times, s.TimeMs)
		c.Values = append(c.Values, s.Value)
	}
	return c
}

// WindowStart returns the start of the window that holds timeMs.
func WindowStart(timeMs int64, w *scan.Windows) int64 {
	offset := (timeMs - w.OriginMs) % w.WidthMs
	if offset < 0 {
		offset += w.WidthMs
	}
	return timeMs - offset
}

// windowChunk computes all aggregates of each window by its definition and
// keeps the ones asked for. Samples are by time.
func windowChunk(samples []series.Sample, w *scan.Windows) *scan.Chunk {
	byWindow, digests := map[int64][]float64{}, map[int64]uint64{}
	inWindow := map[int64][]series.Sample{}
	c := &scan.Chunk{}
	for _, s := range samples {
		if math.IsNaN(s.Value) && w.Aggregates&scan.AggregateDigest == 0 {
			continue
		}
		start := WindowStart(s.TimeMs, w)
		digests[start] += scan.DigestSamples([]int64{s.TimeMs}, []float64{s.Value})
		if byWindow[start] == nil {
			c.Times = append(c.Times, start)
		}
		byWindow[start] = append(byWindow[start], s.Value)
		inWindow[start] = append(inWindow[start], s)
	}
	for _, start := range c.Times {
		values := byWindow[start]
		appendIf(&c.Sum, w, scan.AggregateSum, sumOf(inWindow[start]))
		appendIf(&c.Count, w, scan.AggregateCount, int64(len(values)))
		appendIf(&c.Min, w, scan.AggregateMin, slices.Min(values))
		appendIf(&c.Max, w, scan.AggregateMax, slices.Max(values))
		appendIf(&c.First, w, scan.AggregateFirst, values[0])
		appendIf(&c.Last, w, scan.AggregateLast, values[len(values)-1])
		appendIf(&c.Digest, w, scan.AggregateDigest, digests[start])
		appendIf(&c.Hidden, w, scan.AggregateHidden, 0)
	}
	return c
}

// sumOf adds up samples as described at scan.Windows: by hour, by day, and then all days.
func sumOf(samples []series.Sample) float64 {
	hours := collapse(samples, 3_600_000)
	days := collapse(hours, 86_400_000)
	return collapse(days, math.MaxInt64)[0].Value
}

// collapse adds up what lies in the same stretch of time, in order.
func collapse(samples []series.Sample, widthMs int64) (sums []series.Sample) {
	for _, s := range samples {
		start := WindowStart(s.TimeMs, &scan.Windows{WidthMs: widthMs})
		if widthMs == math.MaxInt64 {
			start = 0
		}
		if n := len(sums); n == 0 || sums[n-1].TimeMs != start {
			sums = append(sums, series.Sample{TimeMs: start})
		}
		sums[len(sums)-1].Value += s.Value
	}
	return sums
}

func appendIf[T any](column *[]T, w *scan.Windows, wanted scan.Aggregate, v T) {
	if w.Aggregates&wanted != 0 {
		*column = append(*column, v)
	}
}

// Last implements scan.Source.
func (m *Memory) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	keys, err := m.match(selector)
	if err != nil {
		return err
	}
	if limits.SeriesMax > 0 && int64(len(keys)) > limits.SeriesMax {
		return &scan.LimitError{What: "series", Limit: limits.SeriesMax}
	}
	for _, key := range keys {
		samples := m.samples(key, fromMs, math.MaxInt64)
		if len(samples) == 0 {
			continue
		}
		err := visit(scan.Point{Key: key, Sample: samples[len(samples)-1]})
		if errors.Is(err, scan.ErrStopped) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Series implements scan.Source.
func (m *Memory) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	keys, err := m.match(selector)
	if err != nil {
		return 0, err
	}
	for n, key := range keys {
		if limit > 0 && n == limit {
			break
		}
		err := visit(key)
		if errors.Is(err, scan.ErrStopped) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	return int64(len(keys)), nil
}

// names returns the sorted, distinct names that collect adds, filtered by prefix
// and cut to limit.
func (m *Memory) names(ctx context.Context, prefix string, limit int, collect func(database, metric string, tags []series.Tag, add func(string))) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, key := range m.keys() {
		database, metric, tags, err := key.Parts(nil)
		if err != nil {
			return nil, err
		}
		collect(string(database), string(metric), tags, func(name string) {
			if strings.HasPrefix(name, prefix) {
				found[name] = true
			}
		})
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	if limit > 0 && len(names) > limit {
		names = names[:limit]
	}
	return names, nil
}

// Metrics implements scan.Source.
func (m *Memory) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return m.names(ctx, prefix, limit, func(db, metric string, _ []series.Tag, add func(string)) {
		if db == database {
			add(metric)
		}
	})
}

// TagNames implements scan.Source.
func (m *Memory) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return m.names(ctx, prefix, limit, func(db, name string, tags []series.Tag, add func(string)) {
		if db == database && (metric == "" || metric == name) {
			for _, tag := range tags {
				add(string(tag.Name))
			}
		}
	})
}

// TagValues implements scan.Source. An empty name means the values of all tags.
func (m *Memory) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return m.names(ctx, prefix, limit, func(db, of string, tags []series.Tag, add func(string)) {
		if db != database || metric != "" && metric != of {
			return
		}
		for _, tag := range tags {
			if name == "" || name == string(tag.Name) {
				add(string(tag.Value))
			}
		}
	})
}

// Databases implements scan.Source.
func (m *Memory) Databases(ctx context.Context) ([]string, error) {
	return m.names(ctx, "", 0, func(database, _ string, _ []series.Tag, add func(string)) { add(database) })
}
