package cache

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
)

// grid numbers windows, so that requests whose origins differ by whole windows share them.
type grid struct {
	offsetMs, widthMs int64 // offsetMs is in [0, widthMs)
}

// widthMsMax bounds what is kept; it keeps numbers of windows far from overflows.
const widthMsMax = 1 << 40

func gridOf(w *scan.Windows) grid {
	offset := w.OriginMs % w.WidthMs
	if offset < 0 {
		offset += w.WidthMs
	}
	return grid{offset, w.WidthMs}
}

// at returns the number of the window that has a time, which is within the range of scans.
func (g grid) at(timeMs int64) int64 {
	n := (timeMs - g.offsetMs) / g.widthMs
	if n*g.widthMs > timeMs-g.offsetMs {
		n--
	}
	return n
}

// startMs returns the first time of a window.
func (g grid) startMs(number int64) int64 { return number*g.widthMs + g.offsetMs }

// span is a range of windows: from inclusive, to exclusive.
type span struct{ from, to int64 }

func (s span) empty() bool { return s.from >= s.to }

// before returns the number of the first window that may have changed when nothing before a
// time has.
func (g grid) before(leastMs int64) int64 {
	switch {
	case leastMs < scan.TimeMsMin:
		return math.MinInt64
	case leastMs > scan.TimeMsMax:
		return math.MaxInt64
	}
	return g.at(leastMs)
}

// whole returns the windows that lie in [fromMs, toMs] and end at closedMs or before.
func (g grid) whole(fromMs, toMs, closedMs int64) span {
	clamp := func(timeMs int64) int64 { return min(max(timeMs, scan.TimeMsMin), scan.TimeMsMax) }
	return span{g.at(clamp(fromMs) + g.widthMs - 1), min(g.at(clamp(toMs)+1), g.at(clamp(closedMs)))}
}

// keyOf returns what requests have in common whose windows are the same: matchers in any
// order ask for the same series.
func keyOf(r *scan.Request, g grid) string {
	b := make([]byte, 0, 256)
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	flag := func(set bool) {
		if set {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	text(r.Database)
	text(r.Metric)
	flag(r.MetricAny)
	flag(r.Exact)
	b = binary.AppendUvarint(b, uint64(g.widthMs))
	b = binary.AppendUvarint(b, uint64(g.offsetMs))
	b = append(b, byte(r.Windows.Aggregates))
	flag(r.Shards != nil)
	b = binary.AppendUvarint(b, uint64(len(r.Shards)))
	for _, shard := range r.Shards {
		b = binary.BigEndian.AppendUint16(b, shard)
	}
	matchers := make([]string, len(r.Matchers))
	for i := range r.Matchers {
		matchers[i] = matcherKey(&r.Matchers[i])
	}
	slices.Sort(matchers)
	for _, m := range slices.Compact(matchers) {
		text(m)
	}
	return string(b)
}

func matcherKey(m *scan.Matcher) string {
	values := m.Values
	switch m.Kind {
	case scan.MatchIn, scan.MatchNotIn, scan.MatchEqualFold, scan.MatchNotEqualFold:
		values = slices.Clone(values) // they are sets
		slices.Sort(values)
		values = slices.Compact(values)
	}
	b := append([]byte{byte(m.Kind)}, binary.AppendUvarint(nil, uint64(len(m.Name)))...)
	b = append(b, m.Name...)
	for _, v := range values {
		b = binary.AppendUvarint(b, uint64(len(v)))
		b = append(b, v...)
	}
	return string(b)
}
