package auditor

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// views returns all series of a client in a stretch of time.
func (w *modelWriter) views(fromMs, toMs int64) []seriesView {
	w.mu.Lock()
	defer w.mu.Unlock()
	views := make([]seriesView, len(w.mu.series))
	for i, s := range w.mu.series {
		views[i] = s.clone(s.firstAt(fromMs), s.firstAt(toMs+1))
	}
	return views
}

// firstAt is the index of the first point at or after a time, at least 0.
func (s *modelSeries) firstAt(timeMs int64) int {
	if timeMs <= s.firstMs {
		return 0
	}
	return int(min((timeMs-s.firstMs+s.stepMs-1)/s.stepMs, indexMax))
}

// compareRead compares an answer to a query that went on while its client wrote.
func compareRead(metric string, w *modelWriter, begin, end []seriesView, answer []answerSeries) (compared int64, err error) {
	var f findings
	w.mu.Lock() // series are compared by their times, which do not change
	series := w.mu.series
	w.mu.Unlock()
	for i, got := range f.bySeries(metric, w, series, answer) {
		s := series[i]
		compared += int64(len(got))
		seen := f.points(w.number, s, got)
		from, to := begin[i].from, begin[i].from+max(len(begin[i].points), len(end[i].points))
		for index := range seen {
			if index < from || index >= to {
				f.add("series %d at %d: outside of what was asked for, or never sent", s.number, s.timeMs(index))
			}
		}
		for index := from; index < to; index++ {
			v := seen[index] // 0: it is not there
			if !between(&begin[i], &end[i], index, v) {
				before, doubt := begin[i].at(index)
				f.add("%s: seen by a query before which write %d was acknowledged, and of %d writes none was in doubt but %v",
					origin{w.number, s.number, index, v}, before.settled, before.used, doubt)
			}
		}
	}
	return compared, f.err("a query while clients write")
}

// compareAll compares an answer about all of a client's series, while nobody writes,
// and makes what it saw binding.
func compareAll(metric string, w *modelWriter, answer []answerSeries) (compared int64, err error) {
	var f findings
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, got := range f.bySeries(metric, w, w.mu.series, answer) {
		s := w.mu.series[i]
		compared += int64(len(got))
		seen := f.points(w.number, s, got)
		for index := range seen {
			if index >= len(s.points) {
				f.add("series %d at %d: never sent for this time", s.number, s.timeMs(index))
			}
		}
		for index := range s.points {
			v := seen[index]
			if s.may(index, v) {
				s.observe(index, v)
				continue
			}
			p := s.points[index]
			switch {
			case v == 0:
				f.add("%s is missing; it was acknowledged", origin{w.number, s.number, index, p.settled})
			case p.settled == 0:
				f.add("%s is there; the point was deleted, or nothing of it acknowledged nor in doubt", origin{w.number, s.number, index, v})
			default:
				f.add("%s is there; write %d was acknowledged", origin{w.number, s.number, index, v}, p.settled)
			}
		}
	}
	return compared, f.err("a query of everything")
}

// findings are what is wrong with one answer.
type findings struct {
	texts []string
	count int
}

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
	return fmt.Errorf("%w: %s: %d differences:\n  %s", ErrBroken, what, f.count, strings.Join(f.texts, "\n  "))
}

// bySeries returns the samples of an answer by the index of the series, and finds
// series that were never sent, or that are there twice.
func (f *findings) bySeries(metric string, w *modelWriter, series []*modelSeries, answer []answerSeries) [][][2]float64 {
	samples := make([][][2]float64, len(series))
	seen := map[string]bool{}
	for _, got := range answer {
		tag := got.Tags["series"]
		s := w.find(series, tag)
		switch {
		case s == nil || got.Metric != metric || got.Tags["client"] != strconv.Itoa(w.number) || len(got.Tags) != 2:
			f.add("series %s %v was never sent", got.Metric, got.Tags)
		case seen[tag]:
			f.add("series %s is in the answer twice", tag)
		default:
			seen[tag] = true
			samples[s.number] = got.DPS
		}
	}
	return samples
}

// points returns the versions of samples by index. It finds samples out of order,
// those of times that are never written, and values that are not of their point.
func (f *findings) points(client int, s *modelSeries, samples [][2]float64) map[int]version {
	seen := make(map[int]version, len(samples))
	lastMs := int64(math.MinInt64)
	for _, sample := range samples {
		timeMs := int64(sample[0])
		if timeMs <= lastMs {
			f.add("series %d at %d: after a sample at %d, so twice or out of order", s.number, timeMs, lastMs)
		}
		lastMs = timeMs
		index := s.firstAt(timeMs)
		if timeMs < s.firstMs || s.timeMs(index) != timeMs {
			f.add("series %d at %d: never sent for this time, yet there is %v", s.number, timeMs, sample[1])
			continue
		}
		o, ok := originOf(sample[1])
		if !ok || o.writer != client || o.series != s.number || o.index != index {
			f.add("series %d at %d: %v was never sent, it would be %s", s.number, timeMs, sample[1], o)
			continue
		}
		seen[index] = o.v
	}
	return seen
}
