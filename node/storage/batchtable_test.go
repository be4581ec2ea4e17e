package storage

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// slowTable is what a batchTable should be: lists that are walked.
type slowTable struct {
	timeMs, ageMs int64
	sessions      []slowSession // by use, oldest first
}

type slowSession struct {
	id      uint64
	applied map[uint64]bool
	last    uint64
	usedMs  int64
}

func (t *slowTable) find(id uint64) int {
	return slices.IndexFunc(t.sessions, func(s slowSession) bool { return s.id == id })
}

func (t *slowTable) judge(id series.BatchID, timeMs int64) batchVerdict {
	if timeMs > t.timeMs {
		step := timeMs - t.timeMs
		if step < 0 || step > batchStepMsMax { // below 0: it did not fit
			step = batchStepMsMax
		}
		t.ageMs += step
	}
	t.timeMs = timeMs
	t.sessions = slices.DeleteFunc(t.sessions, func(s slowSession) bool { return t.ageMs-s.usedMs >= batchSessionMs })
	at := t.find(id.Session)
	if at < 0 {
		return batchFresh
	}
	s := t.sessions[at]
	if s.last>>63 != id.Counter>>63 {
		return batchOld
	}
	s.usedMs = t.ageMs
	t.sessions = append(slices.Delete(t.sessions, at, at+1), s)
	switch {
	case id.Counter <= s.last && s.last-id.Counter >= batchWindow:
		return batchOld
	case s.applied[id.Counter]:
		return batchRepeated
	}
	return batchFresh
}

func (t *slowTable) note(id series.BatchID) {
	at := t.find(id.Session)
	if at < 0 {
		most, same := batchSessionsMax, 0
		if id.Counter>>63 == 1 {
			most = batchKeyedMax
		}
		isSame := func(s slowSession) bool { return s.last>>63 == id.Counter>>63 }
		for _, s := range t.sessions {
			if isSame(s) {
				same++
			}
		}
		if same == most {
			oldest := slices.IndexFunc(t.sessions, isSame)
			t.sessions = slices.Delete(t.sessions, oldest, oldest+1)
		}
		t.sessions = append(t.sessions, slowSession{id: id.Session, applied: map[uint64]bool{}, last: id.Counter, usedMs: t.ageMs})
		at = len(t.sessions) - 1
	}
	s := &t.sessions[at]
	s.applied[id.Counter] = true
	s.last = max(s.last, id.Counter)
}

// TestBatchTableAgreesWithSlowOne takes ids as writers send them and as nobody
// does, with clocks that jump; now and then the table goes through its durable form.
func TestBatchTableAgreesWithSlowOne(t *testing.T) {
	for seed := range uint64(seeds(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 5))
			sessions := []uint64{3, 40, 700}[seed%3]
			table, slow := newBatchTable(), &slowTable{}
			now := int64(1_700_000_000_000)
			counters := map[uint64]uint64{}
			for step := range 4000 {
				switch rng.IntN(200) {
				case 0:
					now = rng.Int64() - rng.Int64()
				case 1:
					now -= rng.Int64N(1 << 40)
				case 2, 3:
					now += rng.Int64N(batchSessionMs)
				default:
					now += rng.Int64N(2000)
				}
				id := series.BatchID{Session: 1 + rng.Uint64N(sessions)}
				switch counters[id.Session]++; rng.IntN(40) {
				case 0:
					counters[id.Session] += rng.Uint64N(300)
				case 1:
					counters[id.Session] = rng.Uint64()
				}
				id.Counter = counters[id.Session] - min(counters[id.Session], rng.Uint64N(4)*rng.Uint64N(60))
				got, want := table.judge(id, now), slow.judge(id, now)
				if got != want {
					t.Fatalf("step %d, %+v at %d: %d, want %d", step, id, now, got, want)
				}
				if got == batchFresh && rng.IntN(10) > 0 {
					table.note(id)
					slow.note(id)
				}
				if rng.IntN(100) == 0 {
					table = throughDurableForm(t, &table)
				}
				if len(table.places) != len(slow.sessions) {
					t.Fatalf("step %d: %d sessions, want %d", step, len(table.places), len(slow.sessions))
				}
			}
		})
	}
}

func throughDurableForm(t *testing.T, table *batchTable) batchTable {
	t.Helper()
	b := table.encode()
	again, err := decodeBatchTable(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, again.encode()) {
		t.Fatalf("%x became %x", b, again.encode())
	}
	return again
}

// TestBatchTableIsBounded has more sessions than may be kept.
func TestBatchTableIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	table, slow := newBatchTable(), &slowTable{}
	for step := range 14_000 {
		id := series.BatchID{Session: 1 + rng.Uint64N(batchSessionsMax*3/2), Counter: rng.Uint64N(3)}
		if step < batchSessionsMax*5/4 {
			id.Session = uint64(step + 1)
		} else if step%2 == 0 {
			id = series.KeyedID(1<<32 + rng.Uint64N(batchKeyedMax*3/2))
		}
		if got, want := table.judge(id, 0), slow.judge(id, 0); got != want {
			t.Fatalf("step %d: %d, want %d", step, got, want)
		} else if got == batchFresh {
			table.note(id)
			slow.note(id)
		}
		const most = batchSessionsMax + batchKeyedMax
		if len(table.places) != len(slow.sessions) || len(table.places) > most || len(table.sessions) > most {
			t.Fatalf("%d sessions in %d places, want %d", len(table.places), len(table.sessions), len(slow.sessions))
		}
	}
	if table.counting.count != batchSessionsMax || table.keyed.count != batchKeyedMax {
		t.Fatalf("%d and %d sessions: the lists were not filled", table.counting.count, table.keyed.count)
	}
	throughDurableForm(t, &table)
}

// TestKeyedWritesForgetNoWriter: any number of single writes with keys leaves what is
// known of writers that count.
func TestKeyedWritesForgetNoWriter(t *testing.T) {
	table := newBatchTable()
	writer := series.BatchID{Session: 7, Counter: 1}
	table.judge(writer, 0)
	table.note(writer)
	for n := range uint64(3 * batchSessionsMax) {
		id := series.KeyedID(1000 + n)
		if got := table.judge(id, 0); got != batchFresh {
			t.Fatal(got)
		}
		table.note(id)
		if got := table.judge(id, 0); got != batchRepeated {
			t.Fatal(got)
		}
	}
	if got := table.judge(writer, 0); got != batchRepeated {
		t.Fatalf("the writer's batch is %d", got)
	}
	if got := table.judge(series.KeyedID(1000), 0); got != batchFresh {
		t.Fatalf("the first key is %d", got)
	}
}

// TestClocksAYearApartForgetNothing fails over between leaders with such clocks.
func TestClocksAYearApartForgetNothing(t *testing.T) {
	table := newBatchTable()
	now := int64(1_700_000_000_000)
	id := series.BatchID{Session: 7, Counter: 1}
	table.judge(id, now)
	table.note(id)
	other := series.BatchID{Session: 8, Counter: 1}
	for _, jump := range []int64{365 * 24 * 3600_000, -365 * 24 * 3600_000, math.MaxInt64 - now, math.MinInt64} {
		table.judge(other, now+jump)
	}
	if got := table.judge(id, now); got != batchRepeated {
		t.Errorf("after jumps of the clock: %d", got)
	}
	for range batchSessionMs / 1000 {
		now += 1000
		table.judge(other, now)
	}
	if got := table.judge(id, now); got != batchFresh {
		t.Errorf("after 15 minutes without use: %d", got)
	}
}

func FuzzDecodeBatchTable(f *testing.F) {
	table := newBatchTable()
	f.Add(table.encode())
	for _, id := range []series.BatchID{{Session: 1, Counter: 200}, {Session: 1 << 60, Counter: 0}, {Session: 1, Counter: 90}, {Session: 2, Counter: 1}, series.KeyedID(9)} {
		table.judge(id, 1_700_000_000_000+int64(id.Counter))
		table.note(id)
	}
	f.Add(table.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := decodeBatchTable(b)
		if err != nil {
			return
		}
		if len(table.places) > batchSessionsMax+batchKeyedMax {
			t.Fatalf("%d sessions", len(table.places))
		}
		throughDurableForm(t, &table)
		if oldest := table.counting.oldest; oldest != noSession {
			s := table.sessions[oldest]
			if got := table.judge(series.BatchID{Session: s.id, Counter: s.last}, table.timeMs); got != batchRepeated {
				t.Fatalf("the last counter of a session is %d", got)
			}
		}
	})
}

func FuzzDecodeBatchFile(f *testing.F) {
	table := newBatchTable()
	table.judge(series.BatchID{Session: 5, Counter: 5}, 5)
	table.note(series.BatchID{Session: 5, Counter: 5})
	f.Add(encodeBatchFile([][]byte{nil, table.encode(), nil, table.encode()}))
	f.Fuzz(func(t *testing.T, b []byte) {
		tables, err := decodeBatchFile(b, 4)
		if err != nil {
			return
		}
		encoded := make([][]byte, len(tables))
		for i := range tables {
			encoded[i] = tables[i].encode()
		}
		if _, err := decodeBatchFile(encodeBatchFile(encoded), 4); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBatchFileNoticesAnyChange flips every bit.
func TestBatchFileNoticesAnyChange(t *testing.T) {
	table := newBatchTable()
	for i := range uint64(4) {
		table.judge(series.BatchID{Session: i + 1, Counter: 9}, 5)
		table.note(series.BatchID{Session: i + 1, Counter: 9})
	}
	b := encodeBatchFile([][]byte{nil, table.encode(), table.encode()})
	for i := range 8 * len(b) {
		changed := slices.Clone(b)
		changed[i/8] ^= 1 << (i % 8)
		if _, err := decodeBatchFile(changed, 3); err == nil {
			t.Fatalf("bit %d may change", i)
		}
	}
	for n := 1; n < len(b); n++ {
		if _, err := decodeBatchFile(b[:n], 3); err == nil {
			t.Fatalf("%d of %d bytes were taken", n, len(b))
		}
	}
}
