package commit

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// manyShards is a fakeEngine of more shards.
type manyShards struct {
	fakeEngine
	shards int
}

func (e manyShards) AppliedIndexes() []uint64 { return make([]uint64, e.shards) }

// BenchmarkMachine takes writes of 200 points over some shards through the commit path of a node
// that has every shard alone, without log and appliers: in rounds of one write, and of 32.
func BenchmarkMachine(b *testing.B) {
	const shards, bodyBytes = 128, 1200 // of 200 points as they come
	for _, parts := range []int{1, 16, 128} {
		for _, writes := range []int{1, 32} {
			b.Run(fmt.Sprintf("parts=%d/writes=%d", parts, writes), func(b *testing.B) {
				benchmarkMachine(b, shards, parts, writes, bodyBytes)
			})
		}
	}
}

func benchmarkMachine(b *testing.B, shards, parts, writes, bodyBytes int) {
	b.Helper()
	turn := repeatedWrites(b, shards, parts, writes, bodyBytes)
	b.ReportAllocs()
	for b.Loop() {
		turn()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*writes), "ns/write")
}

// repeatedWrites returns what takes the same writes through a Machine at each call.
func repeatedWrites(t testing.TB, shards, parts, writes, bodyBytes int) func() {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	log := &memoryLog{records: map[wal.Position][]byte{}}
	host := replica.Config{Node: "a", Incarnation: "00", Run: 1, Seed: 1}
	m, err := New(Config{Host: host, Shards: shards, Log: log, Logger: logger}, NewRecovery(manyShards{shards: shards}, log, shards, logger))
	if err != nil {
		t.Fatal(err)
	}
	rows := &shardmap.Map{Settings: shardmap.Settings{Shards: shards}}
	for range shards {
		rows.Rows = append(rows.Rows, shardmap.Row{Version: 1, RaftIDLast: 9, Era: 1, Fresh: true,
			Members: []shardmap.Member{{Node: "a", Incarnation: "00", RaftID: 1, Role: shardmap.Full}}})
	}
	m.Adopt(rows)
	m.Output().Reset()
	round, in, position := NewRound(shards, 1), Input{}, wal.Position(0)
	done := 0
	queued := make([]*Write, writes)
	for i := range queued {
		queued[i] = NewWrite(series.BatchID{Session: 1, Counter: uint64(i + 1)}, parts)
		for part := range parts {
			queued[i].Add(entry.Samples, uint16((i*7+part)%shards), make([]byte, bodyBytes/parts))
		}
		queued[i].Done = func() { done++ }
	}
	return func() {
		for _, w := range queued {
			w.Begin()
		}
		in.Writes, done = queued, 0
		for {
			ready, err := m.Step(&in, round)
			if err != nil {
				t.Fatal(err)
			}
			m.Output().Reset()
			if in.Writes = nil; !ready {
				break
			}
			m.Written(round, position)
			m.Output().Reset()
			position += wal.Position(round.Buffer.Len())
			for i := range round.Entries[0] {
				for _, s := range round.Entries[0][i].Shares {
					s.Finish(1, nil)
				}
			}
		}
		if done != writes {
			t.Fatalf("%d writes of %d were answered", done, writes)
		}
	}
}
