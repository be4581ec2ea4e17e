package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// AnswerSeries is one series of an answer of /api/query with arrays.
type AnswerSeries struct {
	Metric string            `json:"metric"`
	Tags   map[string]string `json:"tags"`
	DPS    [][2]float64      `json:"dps"`
}

// beyondMs is how far before and after what was written Span reaches.
const beyondMs int64 = 24 * 3600 * 1000

// Span returns the times of all of a client's samples, and reaches beyond what was written, so
// that made-up samples are seen too.
func (w *Writer) Span() (fromMs, toMs int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fromMs = math.MaxInt64
	for _, s := range w.mu.series {
		fromMs = min(fromMs, s.firstMs-beyondMs)
		toMs = max(toMs, s.timeMs(len(s.points))+beyondMs)
	}
	return fromMs, toMs
}

// stretchPoints is the longest stretch that a reader asks for: most samples are compared by
// checks of everything.
const stretchPoints = 300

// Stretch returns the times of a stretch of a client's series, mostly of the newest samples.
func (w *Writer) Stretch(random *rand.Rand) (fromMs, toMs int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.mu.series[random.IntN(min(len(w.mu.series), w.config.Aged+2))] // of each kind
	count := len(s.points)
	from := max(0, count-stretchPoints)
	if random.IntN(3) == 0 {
		from = random.IntN(count + 1)
	}
	return s.timeMs(from), s.timeMs(from + 2*stretchPoints)
}

// View is what may be seen of a client's series in a stretch of time at one moment.
type View struct{ series []seriesView }

// View returns what may be seen now.
func (w *Writer) View(fromMs, toMs int64) View {
	w.mu.Lock()
	defer w.mu.Unlock()
	views := make([]seriesView, len(w.mu.series))
	for i, s := range w.mu.series {
		views[i] = s.clone(s.firstAt(fromMs), s.firstAt(toMs+1))
	}
	return View{views}
}

// firstAt is the index of the first point at or after a time, at least 0.
func (s *series) firstAt(timeMs int64) int {
	if timeMs <= s.firstMs {
		return 0
	}
	return int(min((timeMs-s.firstMs+s.stepMs-1)/s.stepMs, math.MaxInt32))
}

// CompareRead compares an answer to a query that went on from one view to another while its
// client wrote. It returns how many samples it has compared.
func (w *Writer) CompareRead(begin, end View, answer []AnswerSeries) (compared int64, err error) {
	f := w.newFindings()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, got := range f.bySeries(answer) {
		if i >= len(end.series) {
			if len(got) > 0 {
				f.add("%s: not sent before the query ended", w.mu.series[i].name)
			}
			continue
		}
		s, before, after := w.mu.series[i], &seriesView{from: end.series[i].from}, &end.series[i]
		if i < len(begin.series) {
			before = &begin.series[i]
		}
		compared += int64(len(got))
		seen := f.points(s, got)
		from, to := after.from, after.from+max(len(before.points), len(after.points))
		for index := range seen {
			if index < from || index >= to {
				f.add("%s: outside of what was asked for, or never sent", s.at(index))
			}
		}
		for index := from; index < to; index++ {
			v := seen[index] // 0: it is not there
			if !between(before, after, index, v) && (v > 0 || s.timeMs(index) >= w.mu.cutMs) {
				p, doubt := before.at(index)
				f.add("%s: write %d is seen by a query before which write %d was acknowledged, and of %d writes none was in doubt but %v",
					s.at(index), v, p.binding, p.used, doubt)
			}
		}
	}
	return compared, f.err("a query while clients write")
}

// CompareAll compares an answer about all of a client's series, while nobody writes,
// and makes what it saw binding.
func (w *Writer) CompareAll(answer []AnswerSeries) (compared int64, err error) {
	f := w.newFindings()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, got := range f.bySeries(answer) {
		s := w.mu.series[i]
		compared += int64(len(got))
		seen := f.points(s, got)
		for index := range s.points {
			v, p := seen[index], s.points[index]
			switch {
			case s.may(index, v), v == 0 && s.timeMs(index) < w.mu.cutMs:
				s.bind(index, v)
			case v == 0:
				f.add("%s is missing; write %d was acknowledged, in doubt are %v", s.at(index), p.binding, s.doubt[index])
			case p.binding == 0:
				f.add("%s: write %d is there; the point was deleted, or nothing of it acknowledged nor in doubt", s.at(index), v)
			default:
				f.add("%s: write %d is there; write %d was acknowledged", s.at(index), v, p.binding)
			}
		}
	}
	return compared, f.err("a query of everything")
}

// at names a point for people.
func (s *series) at(index int) string { return fmt.Sprintf("%s at %d", s.name, s.timeMs(index)) }

// findingsMax bounds how many differences are told of one answer.
const findingsMax = 20

// findings are what is wrong with one answer about a client's series.
type findings struct {
	w     *Writer
	texts []string
	count int
}

func (w *Writer) newFindings() findings { return findings{w: w} }

func (f *findings) add(format string, args ...any) {
	f.count++
	if len(f.texts) < findingsMax {
		f.texts = append(f.texts, fmt.Sprintf(format, args...))
	}
}

func (f *findings) err(what string) error {
	if f.count == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s, client %d of %s: %d differences:\n  %s", ErrBroken, what, f.w.Number, f.w.config.Metric, f.count, strings.Join(f.texts, "\n  "))
}

// bySeries returns the samples of an answer by the index of the series, and finds
// series that were never sent, or that are there twice. The client's lock is held.
func (f *findings) bySeries(answer []AnswerSeries) [][][2]float64 {
	byName := make(map[string]int, len(f.w.mu.series))
	for i, s := range f.w.mu.series {
		byName[s.name] = i
	}
	samples := make([][][2]float64, len(f.w.mu.series))
	seen := map[string]bool{}
	for _, got := range answer {
		name := got.Tags["series"]
		i, known := byName[name]
		switch {
		case !known || got.Metric != f.w.config.Metric || got.Tags["client"] != strconv.Itoa(f.w.Number) || len(got.Tags) != 2:
			f.add("series %s %v was never sent", got.Metric, got.Tags)
		case seen[name]:
			f.add("series %s is in the answer twice", name)
		default:
			seen[name] = true
			samples[i] = got.DPS
		}
	}
	return samples
}

// points returns the versions of samples by index. It finds samples out of order,
// those of times that are never written, and values that are not of their point.
func (f *findings) points(s *series, samples [][2]float64) map[int]version {
	seen := make(map[int]version, len(samples))
	lastMs := int64(math.MinInt64)
	for _, sample := range samples {
		timeMs := int64(sample[0])
		if timeMs <= lastMs {
			f.add("%s at %d: after a sample at %d, so twice or out of order", s.name, timeMs, lastMs)
		}
		lastMs = timeMs
		index := s.firstAt(timeMs)
		if timeMs < s.firstMs || s.timeMs(index) != timeMs || index >= len(s.points) {
			f.add("%s at %d: never sent for this time, yet there is %v", s.name, timeMs, sample[1])
			continue
		}
		v := s.versionOf(index, sample[1])
		if v == 0 {
			f.add("%s: %v was never sent; %s", s.at(index), sample[1], s.origin(sample[1]))
			continue
		}
		seen[index] = v
	}
	return seen
}

// origin returns where a value comes from that is not of its point.
func (s *series) origin(value float64) string {
	for index := range s.points {
		if v := s.versionOf(index, value); v > 0 {
			return fmt.Sprintf("it is that of write %d at %d", v, s.timeMs(index))
		}
	}
	return "it is of no write of this series"
}
