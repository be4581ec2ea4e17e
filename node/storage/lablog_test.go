package storage

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup/deduptest"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
)

// labEntry is an entry of a shard's log with what it means.
type labEntry struct {
	entry entry.Entry
	play  func(*slowShard)
}

// slowShard is what a shard should be.
type slowShard struct {
	ids     []string // keys by id
	gone    map[uint32]bool
	samples map[string]map[int64]uint64
	cutMs   int64
	rules   []slowRules
	thin    []slowRules // whose cuts are those before which the last sample of each hour is kept
	batches deduptest.Table
	traces  []series.Exemplar // exemplars, in the order in which they came
}

// slowRules is one entry of rule cuts, in the words of the lab's metrics.
type slowRules struct {
	first, second string // metrics that its rules match; "": all
	cutsMs        [3]int64
}

// lists of rules that the lab draws from.
var labRules = []struct {
	rules []retention.Cut
	slowRules
}{
	{nil, slowRules{first: "none", second: "none"}},
	{[]retention.Cut{{Database: "^default$", Metric: "^m$"}, {Database: "^other$", Metric: ""}}, slowRules{first: "m", second: "none"}},
	{[]retention.Cut{{Database: "", Metric: `^n\..*$`}, {Database: "^(?:default|other)$", Metric: "^.*$"}}, slowRules{first: "n.x"}},
	{[]retention.Cut{{Database: "^other$", Metric: "^m$"}, {Database: "^default$", Metric: "^n"}}, slowRules{first: "none", second: "n.x"}},
}

func (r *slowRules) cut(metric string) int64 {
	for i, of := range [...]string{r.first, r.second} {
		if of == metric || of == "" {
			return r.cutsMs[i]
		}
	}
	return r.cutsMs[2]
}

// CutOf returns the time before which a series has nothing.
func (m *slowShard) cutOf(key string) int64 {
	_, metric, _, err := series.Key(key).Parts(nil)
	if err != nil {
		panic(err)
	}
	cut := m.cutMs
	for i := range m.rules {
		cut = max(cut, m.rules[i].cut(string(metric)))
	}
	return cut
}

// thinCutOf returns the time before which of each hour of a series the last sample is kept.
func (m *slowShard) thinCutOf(key string) int64 {
	_, metric, _, err := series.Key(key).Parts(nil)
	if err != nil {
		panic(err)
	}
	cut := int64(retention.NoCut)
	for i := range m.thin {
		cut = max(cut, m.thin[i].cut(string(metric)))
	}
	return cut
}

func newSlowShard() *slowShard {
	return &slowShard{samples: map[string]map[int64]uint64{}, gone: map[uint32]bool{}, cutMs: retention.NoCut}
}

// idOf returns the id that a key means.
func (m *slowShard) idOf(key string) (uint32, bool) {
	for id, of := range m.ids {
		if of == key && !m.gone[uint32(id)] {
			return uint32(id), true
		}
	}
	return 0, false
}

func (m *slowShard) put(key string, timeMs int64, v float64) {
	if timeMs < m.cutMs || timeMs < m.thinCutOf(key) {
		return
	}
	if _, known := m.idOf(key); !known {
		m.ids = append(m.ids, key)
	}
	if m.samples[key] == nil {
		m.samples[key] = map[int64]uint64{}
	}
	m.samples[key][timeMs] = math.Float64bits(v)
}

// contents returns what a scan should find.
func (m *slowShard) contents() map[string]map[int64]uint64 {
	found := m.whole()
	for key, samples := range found {
		lastOfHours(samples, m.thinCutOf(key))
	}
	return found
}

// lastOfHours leaves of each hour before a cut the last sample.
func lastOfHours(samples map[int64]uint64, beforeMs int64) {
	last := map[int64]int64{}
	for at := range samples {
		hour := int64(math.Floor(float64(at) / 3_600_000))
		if before, known := last[hour]; !known || at > before {
			last[hour] = at
		}
	}
	maps.DeleteFunc(samples, func(at int64, _ uint64) bool {
		return at < beforeMs && last[int64(math.Floor(float64(at)/3_600_000))] != at
	})
}

// whole returns all samples of which a scan should know.
func (m *slowShard) whole() map[string]map[int64]uint64 {
	found := map[string]map[int64]uint64{}
	for key, samples := range m.samples {
		cutMs := m.cutOf(key)
		for at, v := range samples {
			if at >= cutMs {
				if found[key] == nil {
					found[key] = map[int64]uint64{}
				}
				found[key][at] = v
			}
		}
	}
	return found
}

// labLog is the log of one shard.
type labLog struct {
	shard   uint16
	entries []labEntry
	head    *slowShard // after the last one
	keys    []series.Key
	sent    []labWrite // to be repeated
	removed []labDelete
	counter uint64
	nowMs   int64
	thins   bool // hours are thinned
	traces  bool // there are exemplars
	churn   bool // most series are deleted, forgotten and made again soon
}

// labDelete is a delete with an id.
type labDelete struct {
	id   series.BatchID
	body []byte
	play func(*slowShard)
}

// labWrite is a batch with an id. Play returns false if it is refused, as it names a series that is forgotten.
type labWrite struct {
	id    series.BatchID
	batch []byte
	play  func(*slowShard) bool
}

// labKey returns one of the lab's series, of two metrics.
func labKey(i int) series.Key {
	metric := [...]string{"m", "n.x"}[i%2]
	return series.AppendKey(nil, nil, []byte(metric), []series.Tag{{Name: []byte("h"), Value: fmt.Append(nil, i)}})
}

func newLabLog(shard uint16) *labLog {
	l := &labLog{shard: shard, head: newSlowShard(), nowMs: 1_700_000_000_000}
	for i := 0; len(l.keys) < 12; i++ {
		key := labKey(i)
		if key.Shard(labShards) == shard {
			l.keys = append(l.keys, key)
		}
	}
	return l
}

// at returns the model after an entry.
func (l *labLog) at(index uint64) *slowShard {
	m := newSlowShard()
	for i := range l.entries[:index] {
		l.entries[i].play(m)
	}
	return m
}

func (l *labLog) add(kind entry.Kind, body []byte, play func(*slowShard)) {
	l.entries = append(l.entries, labEntry{
		entry.Entry{Kind: kind, Shard: l.shard, Term: 1, Index: uint64(len(l.entries) + 1), Body: body}, play,
	})
	play(l.head)
}

// grow adds a random entry.
func (l *labLog) grow(rng *rand.Rand) {
	l.nowMs += rng.Int64N(200_000)
	if l.churn && len(l.head.ids) > 0 && rng.IntN(4) == 0 {
		if rng.IntN(2) == 0 {
			l.remove(rng)
		}
		l.forget(rng)
		return
	}
	if l.traces && rng.IntN(3) == 0 {
		l.exemplars(rng)
		return
	}
	switch k := rng.IntN(30); {
	case k == 0:
		l.add(entry.Empty, nil, func(*slowShard) {})
	case k == 1 && rng.IntN(4) == 0:
		cutMs := l.nowMs - rng.Int64N(3*3600_000)
		l.add(entry.Retention, entry.RetentionBody(cutMs), func(m *slowShard) {
			m.cutMs = max(m.cutMs, cutMs)
			m.dropTraces(func(x *series.Exemplar) bool { return x.TimeMs < cutMs })
		})
	case k == 2 && rng.IntN(4) == 0:
		l.ruleCuts(rng)
	case l.thins && k == 3:
		l.thinCuts(rng)
	case k < 5 && len(l.head.ids) > 0:
		l.remove(rng)
	case k < 8:
		l.forget(rng)
	default:
		l.write(rng)
	}
}

func (l *labLog) ruleCuts(rng *rand.Rand) {
	of := labRules[rng.IntN(len(labRules))]
	cuts := retention.Cuts{Rules: slices.Clone(of.rules)}
	for i := range of.cutsMs {
		if of.cutsMs[i] = retention.NoCut; rng.IntN(3) > 0 {
			of.cutsMs[i] = l.nowMs - rng.Int64N(4*3600_000)
		}
	}
	for i := range cuts.Rules {
		cuts.Rules[i].CutMs = of.cutsMs[i]
	}
	cuts.OtherMs = of.cutsMs[2]
	l.add(entry.RuleCuts, retention.Encode(&cuts), func(m *slowShard) {
		m.rules = append(m.rules, of.slowRules)
		m.dropTraces(func(x *series.Exemplar) bool {
			_, metric, _, _ := x.Key.Parts(nil)
			return x.TimeMs < of.cut(string(metric))
		})
	})
}

// thinCuts adds an entry of cuts of up to six days ago.
func (l *labLog) thinCuts(rng *rand.Rand) {
	of := labRules[rng.IntN(len(labRules))]
	cuts := retention.Cuts{Rules: slices.Clone(of.rules)}
	for i := range of.cutsMs {
		if of.cutsMs[i] = retention.NoCut; rng.IntN(3) > 0 {
			of.cutsMs[i] = l.dayMs() - rng.Int64N(6)*24*3600_000
		}
	}
	for i := range cuts.Rules {
		cuts.Rules[i].CutMs = of.cutsMs[i]
	}
	cuts.OtherMs = of.cutsMs[2]
	l.add(entry.ThinCuts, retention.Encode(&cuts), func(m *slowShard) { m.thin = append(m.thin, of.slowRules) })
}

// dayMs returns when the log's present day began.
func (l *labLog) dayMs() int64 { return l.nowMs - l.nowMs%(24*3600_000) }

// forget adds an entry that forgets series without samples. Some come too late.
func (l *labLog) forget(rng *rand.Rand) {
	var ids []uint32
	contents := l.head.contents()
	for id, key := range l.head.ids {
		if !l.head.gone[uint32(id)] && len(contents[key]) == 0 && rng.IntN(4) > 0 {
			ids = append(ids, uint32(id))
		}
	}
	after := uint64(len(l.entries))
	if after > 0 && rng.IntN(4) == 0 {
		l.add(entry.Forget, entry.ForgetBody(after-1, ids), func(*slowShard) {})
		return
	}
	l.add(entry.Forget, entry.ForgetBody(after, ids), func(m *slowShard) {
		for _, id := range ids {
			m.dropTraces(func(x *series.Exemplar) bool {
				of, known := m.idOf(string(x.Key))
				return known && of == id
			})
			delete(m.samples, m.ids[id])
			m.gone[id] = true
		}
	})
}

func (l *labLog) remove(rng *rand.Rand) {
	var ids []uint32
	for id := range l.head.ids {
		if rng.IntN(3) == 0 {
			ids = append(ids, uint32(id))
		}
	}
	fromMs := l.nowMs - rng.Int64N(4*3600_000)
	if l.thins && rng.IntN(2) == 0 {
		fromMs = l.dayMs() - rng.Int64N(6)*24*3600_000 + rng.Int64N(2*3600_000)
	}
	toMs := fromMs + rng.Int64N(3*3600_000)
	if l.churn || rng.IntN(3) == 0 {
		fromMs, toMs = scan.TimeMsMin, scan.TimeMsMax // so that queries pass over the series
	}
	d := labDelete{body: entry.DeleteBody(ids, fromMs, toMs), play: func(m *slowShard) {
		for _, id := range ids {
			if m.gone[id] {
				continue
			}
			m.dropTraces(func(x *series.Exemplar) bool {
				of, known := m.idOf(string(x.Key))
				return known && of == id && x.TimeMs >= fromMs && x.TimeMs <= toMs
			})
			fromMs, toMs, cutMs := fromMs, toMs, m.thinCutOf(m.ids[id])
			if fromMs < cutMs {
				fromMs = int64(math.Floor(float64(fromMs)/3600_000)) * 3600_000
			}
			if toMs < cutMs {
				toMs = int64(math.Floor(float64(toMs)/3600_000))*3600_000 + 3600_000 - 1
			}
			maps.DeleteFunc(m.samples[m.ids[id]], func(at int64, _ uint64) bool { return at >= fromMs && at <= toMs })
		}
	}}
	if rng.IntN(3) == 0 {
		l.add(entry.Delete, d.body, d.play)
		return
	}
	if len(l.removed) > 0 && rng.IntN(3) == 0 {
		d = l.removed[rng.IntN(len(l.removed))] // comes again, late
	} else {
		l.counter++
		d.id = series.BatchID{Session: 1 + rng.Uint64N(3), Counter: l.counter}
		l.removed = append(l.removed, d)
	}
	timeMs := l.nowMs
	l.add(entry.NamedDelete, entry.NamedDeleteBody(timeMs, d.id, d.body), func(m *slowShard) {
		if m.batches.Judge(d.id, timeMs) == "fresh" {
			d.play(m)
			m.batches.Note(d.id)
		}
	})
}

// write adds an entry of several batches, some of which come again, and some of which
// are no batches.
func (l *labLog) write(rng *rand.Rand) {
	timeMs := l.nowMs + rng.Int64N(1000) - 500
	body := entry.AppendTime(nil, timeMs)
	var writes []labWrite
	for range 1 + rng.IntN(3) {
		w := labWrite{}
		switch {
		case len(l.sent) > 0 && rng.IntN(4) == 0:
			w = l.sent[len(l.sent)-1-rng.IntN(min(len(l.sent), 20))]
		case rng.IntN(12) == 0:
			w = labWrite{id: series.BatchID{Session: 9, Counter: rng.Uint64N(20)}, batch: []byte{0xff}}
		default:
			if w = l.batch(rng); l.thins && rng.IntN(4) == 0 {
				w = l.hours(rng)
			}
			if rng.IntN(3) > 0 {
				l.counter++
				w.id = series.BatchID{Session: 1 + rng.Uint64N(3), Counter: l.counter}
				l.sent = append(l.sent, w)
			}
		}
		body = append(entry.AppendBatchHeader(body, w.id, len(w.batch)), w.batch...)
		writes = append(writes, w)
	}
	l.add(entry.Samples, body, func(m *slowShard) {
		for _, w := range writes {
			verdict := "fresh"
			if w.id.Session != 0 {
				verdict = m.batches.Judge(w.id, timeMs)
			}
			if verdict == "fresh" && w.play != nil && w.play(m) && w.id.Session != 0 {
				m.batches.Note(w.id)
			}
		}
	})
}

func (l *labLog) batch(rng *rand.Rand) labWrite {
	var e series.BatchEncoder
	type point struct {
		key    string
		id     int // that it names; -1: it has the key
		timeMs int64
		v      float64
	}
	var points []point
	for range 1 + rng.IntN(60) {
		key := l.keys[rng.IntN(len(l.keys))]
		at := l.nowMs - rng.Int64N(60_000)
		switch rng.IntN(8) {
		case 0:
			at -= rng.Int64N(20 * 24 * 3600_000)
			if l.thins {
				at = l.dayMs() - rng.Int64N(7)*24*3600_000 + rng.Int64N(3*3600_000)
			}
		case 1:
			at -= rng.Int64N(3 * 3600_000)
		}
		at -= at % 5000 // so that many are overwritten
		v := float64(rng.IntN(1000)) / 10
		if rng.IntN(5) == 0 {
			v = math.Float64frombits(rng.Uint64())
		}
		named := -1
		if id, known := l.head.idOf(string(key)); known && rng.IntN(4) > 0 {
			named = int(id)
		} else if id := slices.Index(l.head.ids, string(key)); id >= 0 && rng.IntN(50) == 0 {
			named = id // it may be forgotten
		}
		ref := series.ID(uint32(named))
		if named < 0 {
			ref = e.Define(key)
		}
		n := series.DecimalOf(v, 1)
		e.Append(ref, at, n.Mantissa, n.Scale)
		points = append(points, point{string(key), named, at, v})
	}
	return labWrite{batch: e.AppendTo(nil), play: func(m *slowShard) bool {
		for _, p := range points {
			if p.id >= 0 && m.gone[uint32(p.id)] {
				return false
			}
		}
		for _, p := range points {
			m.put(p.key, p.timeMs, p.v)
		}
		return true
	}}
}

// hours returns a batch of hours from before and behind the cuts.
func (l *labLog) hours(rng *rand.Rand) labWrite {
	var e series.BatchEncoder
	e.SetHours()
	type one struct {
		key     string
		id      int // that it names; -1: it has the key
		hourMs  int64
		samples map[int64]float64
		lastMs  int64
	}
	var hours []one
	for range 1 + rng.IntN(3) {
		key := l.keys[rng.IntN(len(l.keys))]
		named := -1
		if id, known := l.head.idOf(string(key)); known && rng.IntN(3) > 0 {
			named = int(id)
		}
		ref := series.ID(uint32(named))
		if named < 0 {
			ref = e.Define(key)
		}
		hourMs := l.dayMs() - rng.Int64N(7*24)*3600_000
		for range 1 + rng.IntN(5) {
			if hourMs += 3600_000 * (1 + rng.Int64N(2)); hourMs >= l.dayMs() {
				break
			}
			if slices.ContainsFunc(hours, func(h one) bool { return h.key == string(key) && h.hourMs == hourMs }) {
				break // a batch has each hour once
			}
			h, samples := labHour(rng, hourMs)
			times, values := h.AppendSamples(nil, nil)
			for i, at := range times {
				number := series.DecimalOf(values[i], 0)
				e.Append(ref, at, number.Mantissa, number.Scale)
			}
			hours = append(hours, one{string(key), named, hourMs, samples, h.TimeMs})
		}
	}
	return labWrite{batch: e.AppendTo(nil), play: func(m *slowShard) bool {
		for _, h := range hours {
			if h.id >= 0 && m.gone[uint32(h.id)] {
				return false
			}
		}
		for _, h := range hours {
			known, cutMs := false, m.cutOf(h.key)
			for at := range m.samples[h.key] {
				known = known || at >= max(h.hourMs, cutMs) && at < h.hourMs+3600_000
			}
			if h.lastMs < m.cutMs || h.hourMs+3600_000 > m.thinCutOf(h.key) {
				continue
			}
			if _, made := m.idOf(h.key); !made {
				m.ids = append(m.ids, h.key)
			}
			if known {
				continue
			}
			if m.samples[h.key] == nil {
				m.samples[h.key] = map[int64]uint64{}
			}
			for at, v := range h.samples {
				m.samples[h.key][at] = math.Float64bits(v)
			}
		}
		return true
	}}
}

// labHour returns an hour of random samples, told by itself and by these.
func labHour(rng *rand.Rand, hourMs int64) (h series.Hour, samples map[int64]float64) {
	samples = map[int64]float64{}
	for range 1 + rng.IntN(6) {
		v := float64(rng.IntN(1000)) / 10
		switch rng.IntN(6) {
		case 0:
			v = math.NaN()
		case 1:
			v = rng.NormFloat64() * 1e9
		}
		samples[hourMs+6+rng.Int64N(3600_000-6)] = v
	}
	h.StartMs = hourMs
	for _, at := range slices.Sorted(maps.Keys(samples)) {
		v := samples[at]
		h.TimeMs, h.Value = at, v
		if math.IsNaN(v) {
			continue
		}
		if h.Count == 0 {
			h.Min, h.Max, h.First = v, v, v
		}
		h.Count++
		h.Sum += v
		h.Min, h.Max, h.Last = min(h.Min, v), max(h.Max, v), v
	}
	return h, samples
}
