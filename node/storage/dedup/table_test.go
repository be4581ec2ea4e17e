package dedup

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup/deduptest"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
)

// TestBatchTableAgreesWithSlowOne takes ids as writers send them and as nobody
// does, with clocks that jump; now and then the table goes through its durable form.
func TestBatchTableAgreesWithSlowOne(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 5))
			sessions := []uint64{3, 40, 700}[seed%3]
			table, slow := NewTable(), &deduptest.Table{}
			now := int64(1_700_000_000_000)
			counters := map[uint64]uint64{}
			for step := range 4000 {
				switch rng.IntN(200) {
				case 0:
					now = rng.Int64() - rng.Int64()
				case 1:
					now -= rng.Int64N(1 << 40)
				case 2, 3:
					now += rng.Int64N(sessionMs)
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
				got, want := table.judge(id, now), slow.Judge(id, now)
				if got.String() != want {
					t.Fatalf("step %d, %+v at %d: %v, want %v", step, id, now, got, want)
				}
				if got == Fresh && rng.IntN(10) > 0 {
					table.note(id)
					slow.Note(id)
				}
				if rng.IntN(100) == 0 {
					table = throughDurableForm(t, &table)
				}
				if len(table.slots) != len(slow.Sessions) {
					t.Fatalf("step %d: %d sessions, want %d", step, len(table.slots), len(slow.Sessions))
				}
			}
		})
	}
}

func throughDurableForm(t *testing.T, table *Table) Table {
	t.Helper()
	b := table.Encode()
	again, err := DecodeTable(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, again.Encode()) {
		t.Fatalf("%x became %x", b, again.Encode())
	}
	return again
}

// TestBatchTableIsBounded has more sessions than may be kept.
func TestBatchTableIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	table, slow := NewTable(), &deduptest.Table{}
	for step := range 14_000 {
		id := series.BatchID{Session: 1 + rng.Uint64N(sessionsMax*3/2), Counter: rng.Uint64N(3)}
		if step < sessionsMax*5/4 {
			id.Session = uint64(step + 1)
		} else if step%2 == 0 {
			id = series.KeyedID(1<<32 + rng.Uint64N(keyedMax*3/2))
		}
		if got, want := table.judge(id, 0), slow.Judge(id, 0); got.String() != want {
			t.Fatalf("step %d: %v, want %v", step, got, want)
		} else if got == Fresh {
			table.note(id)
			slow.Note(id)
		}
		const most = sessionsMax + keyedMax
		if len(table.slots) != len(slow.Sessions) || len(table.slots) > most || len(table.sessions) > most {
			t.Fatalf("%d sessions in %d slots, want %d", len(table.slots), len(table.sessions), len(slow.Sessions))
		}
	}
	if table.counting.count != sessionsMax || table.keyed.count != keyedMax {
		t.Fatalf("%d and %d sessions: the lists were not filled", table.counting.count, table.keyed.count)
	}
	throughDurableForm(t, &table)
}

// TestKeyedWritesForgetNoWriter: any number of single writes with keys leaves what is
// known of writers that count.
func TestKeyedWritesForgetNoWriter(t *testing.T) {
	table := NewTable()
	writer := series.BatchID{Session: 7, Counter: 1}
	table.judge(writer, 0)
	table.note(writer)
	for n := range uint64(3 * sessionsMax) {
		id := series.KeyedID(1000 + n)
		if got := table.judge(id, 0); got != Fresh {
			t.Fatal(got)
		}
		table.note(id)
		if got := table.judge(id, 0); got != Repeated {
			t.Fatal(got)
		}
	}
	if got := table.judge(writer, 0); got != Repeated {
		t.Fatalf("the writer's batch is %d", got)
	}
	if got := table.judge(series.KeyedID(1000), 0); got != Fresh {
		t.Fatalf("the first key is %d", got)
	}
}

// TestClocksAYearApartForgetNothing fails over between leaders with such clocks.
func TestClocksAYearApartForgetNothing(t *testing.T) {
	table := NewTable()
	now := int64(1_700_000_000_000)
	id := series.BatchID{Session: 7, Counter: 1}
	table.judge(id, now)
	table.note(id)
	other := series.BatchID{Session: 8, Counter: 1}
	for _, jump := range []int64{365 * 24 * 3600_000, -365 * 24 * 3600_000, math.MaxInt64 - now, math.MinInt64} {
		table.judge(other, now+jump)
	}
	if got := table.judge(id, now); got != Repeated {
		t.Errorf("after jumps of the clock: %d", got)
	}
	for range sessionMs / 1000 {
		now += 1000
		table.judge(other, now)
	}
	if got := table.judge(id, now); got != Fresh {
		t.Errorf("after 15 minutes without use: %d", got)
	}
}

func FuzzDecodeBatchTable(f *testing.F) {
	table := NewTable()
	f.Add(table.Encode())
	for _, id := range []series.BatchID{{Session: 1, Counter: 200}, {Session: 1 << 60, Counter: 0}, {Session: 1, Counter: 90}, {Session: 2, Counter: 1}, series.KeyedID(9)} {
		table.judge(id, 1_700_000_000_000+int64(id.Counter))
		table.note(id)
	}
	f.Add(table.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := DecodeTable(b)
		if err != nil {
			return
		}
		if len(table.slots) > sessionsMax+keyedMax {
			t.Fatalf("%d sessions", len(table.slots))
		}
		throughDurableForm(t, &table)
		if oldest := table.counting.oldest; oldest != noSession {
			s := table.sessions[oldest]
			if got := table.judge(series.BatchID{Session: s.id, Counter: s.last}, table.timeMs); got != Repeated {
				t.Fatalf("the last counter of a session is %d", got)
			}
		}
	})
}

func FuzzDecodeBatchFile(f *testing.F) {
	table := NewTable()
	table.judge(series.BatchID{Session: 5, Counter: 5}, 5)
	table.note(series.BatchID{Session: 5, Counter: 5})
	f.Add(fileKind().Encode([][]byte{nil, table.Encode(), nil, table.Encode()}))
	f.Fuzz(func(t *testing.T, b []byte) {
		tables, err := decodeFile(b, 4)
		if err != nil {
			return
		}
		encoded := make([][]byte, len(tables))
		for i := range tables {
			encoded[i] = tables[i].Encode()
		}
		if _, err := decodeFile(fileKind().Encode(encoded), 4); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBatchFileNoticesAnyChange flips every bit.
func TestBatchFileNoticesAnyChange(t *testing.T) {
	table := NewTable()
	for i := range uint64(4) {
		table.judge(series.BatchID{Session: i + 1, Counter: 9}, 5)
		table.note(series.BatchID{Session: i + 1, Counter: 9})
	}
	b := fileKind().Encode([][]byte{nil, table.Encode(), table.Encode()})
	for i := range 8 * len(b) {
		changed := slices.Clone(b)
		changed[i/8] ^= 1 << (i % 8)
		if _, err := decodeFile(changed, 3); err == nil {
			t.Fatalf("bit %d may change", i)
		}
	}
	for n := 1; n < len(b); n++ {
		if _, err := decodeFile(b[:n], 3); err == nil {
			t.Fatalf("%d of %d bytes were taken", n, len(b))
		}
	}
}
