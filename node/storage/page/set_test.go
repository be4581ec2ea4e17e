package page

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

var errDisk = errors.New("disk")

// fakeLog is a Sealer that keeps pages in a list: page n has reference n+1.
type fakeLog struct {
	pages []fakePage
	fail  bool
}

type fakePage struct {
	id, previous uint32
	samples      codec.Columns
}

func (l *fakeLog) Seal(id, previous uint32, payload []byte, _ bool) (uint32, error) {
	if l.fail {
		return 0, errDisk
	}
	p := fakePage{id: id, previous: previous}
	if err := codec.DecodePage(payload, &p.samples); err != nil {
		panic(err)
	}
	l.pages = append(l.pages, p)
	return uint32(len(l.pages)), nil
}

// chain returns the samples of the sealed pages from ref back, in order of sealing.
func (l *fakeLog) chain(id, ref uint32, into *codec.Columns, t *rapid.T) {
	if ref == NoPage {
		return
	}
	p := &l.pages[ref-1]
	if p.id != id || p.previous >= ref {
		t.Fatalf("page %d of series %d names %d of series %d", ref, id, p.previous, p.id)
	}
	l.chain(id, p.previous, into, t)
	add(into, &p.samples)
}

func add(into, c *codec.Columns) {
	into.Times = append(into.Times, c.Times...)
	into.Mantissas = append(into.Mantissas, c.Mantissas...)
	into.Scales = append(into.Scales, c.Scales...)
}

// modelSeries is what a series must hold: the last write of each time.
type modelSeries struct {
	values map[int64]uint64
	epochs map[int64]uint16 // of the last write of each time
	lastMs int64
}

type machine struct {
	log   *fakeLog
	set   *Set
	model map[uint32]*modelSeries
	epoch uint16
}

func (m *machine) bits(c *codec.Columns, from map[int64]uint64) map[int64]uint64 {
	for i, timeMs := range c.Times {
		from[timeMs] = math.Float64bits(series.Float64(c.Mantissas[i], c.Scales[i]))
	}
	return from
}

func (m *machine) check(t *rapid.T) {
	for id, want := range m.model {
		var hot Hot
		m.set.Snapshot(id, &hot)
		var all codec.Columns
		m.log.chain(id, hot.Sealed, &all, t)
		for _, payload := range [][]byte{hot.Main, hot.OutOfOrder} {
			if len(payload) > 0 {
				if err := codec.DecodePage(payload, &all); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := m.bits(&all, map[int64]uint64{})
		if len(got) != len(want.values) {
			t.Fatalf("series %d has %d times, want %d", id, len(got), len(want.values))
		}
		for timeMs, bits := range want.values {
			if got[timeMs] != bits {
				t.Fatalf("series %d at %d has %x, want %x", id, timeMs, got[timeMs], bits)
			}
		}
		lastMs, number, ok := m.set.Last(id)
		if !ok || lastMs != want.lastMs || math.Float64bits(number.Float64()) != want.values[lastMs] {
			t.Fatalf("series %d: last is %d %v %v, want %d", id, lastMs, number, ok, want.lastMs)
		}
	}
}

func drawNumber(t *rapid.T) series.Number {
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return series.FloatNumber(rapid.Float64().Draw(t, "float"))
	case 1:
		return series.Number{Mantissa: rapid.Int64().Draw(t, "bits"), Scale: series.ScaleFloat}
	case 2:
		return series.Number{Mantissa: rapid.Int64Range(-series.MantissaMax, series.MantissaMax).Draw(t, "mantissa"), Scale: rapid.Uint8Range(0, series.ScaleMax).Draw(t, "scale")}
	case 3:
		return series.Number{Mantissa: rapid.Int64().Draw(t, "any mantissa"), Scale: rapid.Uint8().Draw(t, "any scale")}
	}
	return series.Number{Mantissa: rapid.Int64Range(0, 300).Draw(t, "small"), Scale: rapid.Uint8Range(0, 3).Draw(t, "small scale")}
}

func (m *machine) append(t *rapid.T) {
	id := rapid.Uint32Range(0, 3).Draw(t, "id")
	if rapid.IntRange(0, 20).Draw(t, "far") == 0 {
		id += 500
	}
	s := m.model[id]
	timeMs := int64(1_750_000_000_000)
	if s != nil {
		timeMs = s.lastMs
	}
	step := rapid.SampledFrom([]int64{10_000, 10_000, 10_000, 10_001, 9_999, 0, -10_000, -7}).Draw(t, "step")
	count := rapid.IntRange(1, 40).Draw(t, "count")
	number := drawNumber(t)
	if rapid.IntRange(0, 20).Draw(t, "jump") == 0 {
		timeMs = rapid.Int64().Draw(t, "time")
	}
	for i := range count {
		timeMs += step
		if rapid.IntRange(0, 3).Draw(t, "new value") == 0 {
			number = drawNumber(t)
		}
		m.log.fail = rapid.IntRange(0, 50).Draw(t, "fail") == 0
		err := m.set.Append(id, timeMs, number.Mantissa, number.Scale, m.epoch)
		m.log.fail = false
		if err != nil {
			if !errors.Is(err, errDisk) {
				t.Fatal(err)
			}
			m.check(t)
			if err := m.set.Append(id, timeMs, number.Mantissa, number.Scale, m.epoch); err != nil {
				t.Fatal(i, err)
			}
		}
		if s == nil {
			s = &modelSeries{values: map[int64]uint64{}, epochs: map[int64]uint16{}, lastMs: math.MinInt64}
			m.model[id] = s
		}
		s.values[timeMs] = math.Float64bits(number.Float64())
		s.lastMs = max(s.lastMs, timeMs)
	}
}

func (m *machine) sealThrough(t *rapid.T) {
	epoch := m.epoch
	m.epoch++
	limit := rapid.IntRange(0, 3).Draw(t, "limit")
	for calls := 0; ; calls++ {
		m.log.fail = rapid.IntRange(0, 5).Draw(t, "fail") == 0
		done, err := m.set.SealThrough(epoch, limit)
		m.log.fail = false
		if err != nil && !errors.Is(err, errDisk) {
			t.Fatal(err)
		}
		if done {
			break
		}
		if calls > 1000 {
			t.Fatal("SealThrough does not end")
		}
		if rapid.IntRange(0, 2).Draw(t, "between") == 0 {
			m.append(t) // of the next epoch
		}
	}
	m.noneThrough(t, epoch)
}

// noneThrough looks into the set for pages that hold samples of an old epoch.
func (m *machine) noneThrough(t *rapid.T, epoch uint16) {
	for id := range m.model {
		if h := m.set.known(id); !h.slot.empty() && !after(h.Tag, epoch) {
			t.Fatalf("series %d has a page of epoch %d after sealing %d", id, h.Tag, epoch)
		}
		if l := m.set.late.find(id); l != nil && !after(l.Tag, epoch) {
			t.Fatalf("series %d has a late page of epoch %d after sealing %d", id, l.Tag, epoch)
		}
	}
}

// TestSetAgainstModel plays random operations on a set and on maps.
func TestSetAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := &fakeLog{}
		var arena *Arena
		if rapid.Bool().Draw(t, "arena") {
			arena = &Arena{}
		}
		m := &machine{log: log, set: NewSet(Options{Sealer: log, Arena: arena}), model: map[uint32]*modelSeries{}, epoch: rapid.Uint16().Draw(t, "epoch")}
		t.Repeat(map[string]func(*rapid.T){
			"append":      m.append,
			"sealThrough": m.sealThrough,
			"sealSeries": func(t *rapid.T) {
				id := rapid.Uint32Range(0, 4).Draw(t, "id")
				if err := m.set.SealSeries(id); err != nil {
					t.Fatal(err)
				}
				var hot Hot
				if m.set.Snapshot(id, &hot); len(hot.Main)+len(hot.OutOfOrder) > 0 {
					t.Fatal("hot after SealSeries")
				}
			},
			"sealAll": func(t *rapid.T) {
				if err := m.set.SealAll(); err != nil {
					t.Fatal(err)
				}
				if s := m.set.Stats(); s.Pages != [classes]int{} || s.PagesOutOfOrder != 0 {
					t.Fatal(s)
				}
			},
			"retire": func(t *rapid.T) {
				id := rapid.Uint32Range(0, 4).Draw(t, "id")
				m.set.Retire(id)
				delete(m.model, id)
				if _, _, ok := m.set.Last(id); ok {
					t.Fatal("known after Retire")
				}
			},
			"": m.check,
		})
		defer m.set.Close()
		if s := m.set.Stats(); s.Series != len(m.model) {
			t.Fatalf("%d series, want %d", s.Series, len(m.model))
		}
	})
}

func appendInt(t *testing.T, set *Set, id uint32, timeMs, value int64, epoch uint16) {
	t.Helper()
	if err := set.Append(id, timeMs, value, 0, epoch); err != nil {
		t.Fatal(err)
	}
}

// TestRepetition: the same sample again takes no room, sealed or not another
// value of the same time is a later write.
func TestRepetition(t *testing.T) {
	log := &fakeLog{}
	set := NewSet(Options{Sealer: log})
	appendInt(t, set, 1, 1000, 5, 0)
	var once, again Hot
	set.Snapshot(1, &once)
	for range 100 {
		appendInt(t, set, 1, 1000, 5, 1)
	}
	if set.Snapshot(1, &again); string(once.Main) != string(again.Main) {
		t.Fatal("a repetition changed the page")
	}
	appendInt(t, set, 1, 1000, 6, 1)
	if err := set.SealAll(); err != nil {
		t.Fatal(err)
	}
	if got := log.pages[0].samples.Mantissas; len(got) != 2 || got[1] != 6 {
		t.Fatal(got)
	}
	// The sealed one may have been deleted since, so it is not left out.
	appendInt(t, set, 1, 1000, 6, 1)
	if set.Snapshot(1, &again); len(again.Main) == 0 || again.Sealed != 1 {
		t.Fatal(again)
	}
}

// TestSealOrder: rule P2, and the chain goes through both kinds of pages.
func TestSealOrder(t *testing.T) {
	log := &fakeLog{}
	set := NewSet(Options{Sealer: log})
	appendInt(t, set, 0, 2000, 1, 9) // a newer epoch than the late one
	appendInt(t, set, 0, 1000, 2, 3)
	if done, err := set.SealThrough(3, 10); !done || err != nil {
		t.Fatal(done, err)
	}
	if len(log.pages) != 2 || log.pages[0].samples.Times[0] != 2000 || log.pages[1].samples.Times[0] != 1000 || log.pages[1].previous != 1 {
		t.Fatal(log.pages)
	}
	var hot Hot
	if set.Snapshot(0, &hot); hot.Sealed != 2 {
		t.Fatal(hot)
	}
	set.ForgetPages(func(ref uint32) bool { return ref != 2 })
	if set.Snapshot(0, &hot); hot.Sealed != NoPage {
		t.Fatal(hot)
	}
}

// TestSealThroughIsBounded: no call seals much more than its limit.
func TestSealThroughIsBounded(t *testing.T) {
	log := &fakeLog{}
	set := NewSet(Options{Sealer: log})
	for id := range uint32(1000) {
		appendInt(t, set, id, 2000, 1, 0)
		appendInt(t, set, id, 1000, 1, 0)
	}
	for calls := 0; ; calls++ {
		before := len(log.pages)
		done, err := set.SealThrough(0, 10)
		if err != nil || calls > 1000 {
			t.Fatal(calls, err)
		}
		if sealed := len(log.pages) - before; sealed > 12 {
			t.Fatalf("%d pages in one call", sealed)
		}
		if done {
			break
		}
	}
	if s := set.Stats(); len(log.pages) != 2000 || s.PageBytes > classes*(chunkBytes+100) || s.Pages != [classes]int{} || s.PagesOutOfOrder != 0 || s.OutOfOrderBytes != 0 {
		t.Fatal(len(log.pages), s)
	}
}

// TestSealThroughAll: a limit may be as large as it likes.
func TestSealThroughAll(t *testing.T) {
	log := &fakeLog{}
	set := NewSet(Options{Sealer: log})
	for id := range uint32(300) {
		appendInt(t, set, id, 2000, 1, 0)
	}
	if done, err := set.SealThrough(0, math.MaxInt); !done || err != nil || len(log.pages) != 300 {
		t.Fatal(done, err, len(log.pages))
	}
}

// TestForgetLast: after a delete the newest sample is unknown, and time may go back.
func TestForgetLast(t *testing.T) {
	set := NewSet(Options{Sealer: &fakeLog{}})
	appendInt(t, set, 0, 2000, 1, 0)
	if set.ForgetLast(0); set.Stats().Series != 1 {
		t.Fatal("forgot a hot sample")
	}
	if err := set.SealSeries(0); err != nil {
		t.Fatal(err)
	}
	set.ForgetLast(0)
	if _, _, ok := set.Last(0); ok || set.Stats().Series != 0 {
		t.Fatal("still known")
	}
	appendInt(t, set, 0, 1000, 3, 0)
	var hot Hot
	if set.Snapshot(0, &hot); len(hot.Main) == 0 || len(hot.OutOfOrder) != 0 || hot.Sealed != 1 {
		t.Fatal(hot)
	}
}

// TestMixedScalesShareAPage: what a collector prints as 1.25, 1.5, 2 fills pages.
func TestMixedScalesShareAPage(t *testing.T) {
	log := &fakeLog{}
	set := NewSet(Options{Sealer: log})
	numbers := []series.Number{{Mantissa: 2}, {Mantissa: 15, Scale: 1}, {Mantissa: 125, Scale: 2}}
	for i := range 1000 {
		n := numbers[i%3]
		if err := set.Append(0, int64(i)*10_000, n.Mantissa, n.Scale, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(log.pages) > 1000/60 {
		t.Errorf("%d pages for 1000 samples", len(log.pages))
	}
}

// TestReleaseHeads: heads that know nothing give their memory back, all of a chunk together.
func TestReleaseHeads(t *testing.T) {
	var arena Arena
	defer arena.Close()
	s := NewSet(Options{Sealer: &fakeLog{}, Arena: &arena})
	const count = 10 * headsPerChunk
	ids := make([]uint32, count)
	for id := range ids {
		ids[id] = uint32(id)
		if err := s.Append(uint32(id), 1000, 1, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Stats().HeadBytes
	gone := ids[headsPerChunk/2 : 5*headsPerChunk+1]
	for _, id := range gone {
		s.Retire(id)
	}
	s.ReleaseHeads(gone)
	if after := s.Stats().HeadBytes; after != before-4*chunkBytes {
		t.Fatalf("%d bytes of heads, %d before", after, before)
	}
	for _, id := range ids {
		if _, _, known := s.Last(id); known != (id < gone[0] || id > gone[len(gone)-1]) {
			t.Fatalf("series %d is known: %v", id, known)
		}
	}
	if err := s.Append(gone[200], 2000, 3, 0, 0); err != nil {
		t.Fatal(err)
	}
	if at, _, known := s.Last(gone[200]); !known || at != 2000 {
		t.Fatal(at, known)
	}
	if done, err := s.SealThrough(9, 1<<20); err != nil || !done {
		t.Fatal(done, err)
	}
	s.Close()
}
