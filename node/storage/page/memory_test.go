package page

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

type nullLog struct{ pages, bytes int }

func (l *nullLog) Seal(_, _ uint32, payload []byte, _ bool) (uint32, error) {
	l.pages++
	l.bytes += len(payload)
	return uint32(l.pages), nil
}

const testStartMs, testIntervalMs = 1_750_000_000_000, 10_000

// fill appends rounds of samples to sets of perSet series each: walk, counter,
// sine-like and step in turn.
func fill(t testing.TB, sets []*Set, perSet, rounds int) {
	random := rand.New(rand.NewPCG(1, 1))
	at := make([]int32, len(sets)*perSet)
	for round := range rounds {
		timeMs := testStartMs + int64(round)*testIntervalMs
		for n, set := range sets {
			for id := range perSet {
				number := next(&at[n*perSet+id], id, round, random)
				if err := set.Append(uint32(id), timeMs, number.Mantissa, number.Scale, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func next(at *int32, id, round int, random *rand.Rand) series.Number {
	if round == 0 {
		*at = random.Int32N(10_000)
	}
	switch id % 4 {
	case 0:
		*at += random.Int32N(201) - 100
	case 1:
		*at += random.Int32N(1000)
		return series.Number{Mantissa: int64(*at)}
	case 2:
		*at += random.Int32N(50)
	case 3:
		if random.IntN(100) == 0 {
			*at = random.Int32N(100)
		}
		return series.Number{Mantissa: int64(*at)}
	}
	if *at%100 == 0 {
		return series.Number{Mantissa: int64(*at / 100)}
	}
	return series.Number{Mantissa: int64(*at), Scale: 2}
}

func heapBytes() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestMemory holds Stats against the heap and against the budget: 85 bytes for
// a series with six samples, and little for a shard of few series.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		name                     string
		shards, perShard, rounds int
		bytesMax                 int // for each series
	}{
		{"many", 16, 15_700, 6, 76},
		{"few", 100, 1, 6, 2500},
		{"long", 16, 2_000, 60, 220},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := heapBytes()
			sets := make([]*Set, c.shards)
			for i := range sets {
				sets[i] = NewSet(Options{Sealer: &nullLog{}})
			}
			fill(t, sets, c.perShard, c.rounds)
			heap := heapBytes() - before
			stats := 0
			for _, set := range sets {
				stats += set.Stats().Bytes()
			}
			n := c.shards * c.perShard
			t.Logf("%d bytes of heap, %d by Stats, for each of %d series", heap/n, stats/n, n)
			if heap/n > c.bytesMax {
				t.Errorf("%d bytes for each series, want at most %d", heap/n, c.bytesMax)
			}
			if d := heap - stats; d < -heap/50 || d > heap/50+c.shards*2048 {
				t.Errorf("heap %d, Stats %d", heap, stats)
			}
			runtime.KeepAlive(sets)
		})
	}
}

// TestArena: sets with an arena use no heap for their chunks, and release them.
func TestArena(t *testing.T) {
	const shards, perShard = 16, 4000
	var arena Arena
	for round := range 3 {
		before := heapBytes()
		sets := make([]*Set, shards)
		for i := range sets {
			sets[i] = NewSet(Options{Sealer: &nullLog{}, Arena: &arena})
		}
		fill(t, sets, perShard, 20)
		heap, stats := heapBytes()-before, 0
		for _, set := range sets {
			stats += set.Stats().Bytes()
		}
		if heap > stats/10 || arena.Mapped() < stats*9/10 || arena.Mapped() > stats+regionBytes {
			t.Errorf("round %d: %d bytes of heap, %d mapped, %d by Stats", round, heap, arena.Mapped(), stats)
		}
		for _, set := range sets {
			set.Close()
			if got := set.Stats(); got != (Stats{}) {
				t.Fatal(got)
			}
		}
	}
}

// TestArenaClose: a closed arena holds nothing, and may be used again; one in use
// stays.
func TestArenaClose(t *testing.T) {
	var arena Arena
	for range 3 {
		sets := []*Set{NewSet(Options{Sealer: &nullLog{}, Arena: &arena}), NewSet(Options{Sealer: &nullLog{}, Arena: &arena})}
		fill(t, sets, 4000, 20)
		sets[0].Close()
		if err := arena.Close(); !errors.Is(err, ErrArenaInUse) || arena.Mapped() == 0 {
			t.Fatal(err, arena.Mapped())
		}
		fill(t, sets, 4000, 20)
		sets[0].Close()
		sets[1].Close()
		if err := arena.Close(); err != nil || arena.Mapped() != 0 {
			t.Fatal(err, arena.Mapped())
		}
	}
}

// BenchmarkAppend is one sample for each series in turn, in id order and in a
// shuffled order, until pages have filled several times.
func BenchmarkAppend(b *testing.B) {
	for _, name := range []string{"few", "ordered", "shuffled", "shuffled and warmed"} {
		b.Run(name, func(b *testing.B) {
			shuffled, warmed := strings.HasPrefix(name, "shuffled"), name == "shuffled and warmed"
			count := 100_000
			if name == "few" {
				count = 1000
			}
			random := rand.New(rand.NewPCG(1, 1))
			ids := make([]uint32, count)
			for i := range ids {
				ids[i] = uint32(i)
			}
			if shuffled {
				random.Shuffle(count, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			}
			log := &nullLog{}
			set := NewSet(Options{Sealer: log, Arena: &Arena{}})
			at := make([]int32, count)
			numbers := make([]series.Number, count)
			samples, round := 0, 0
			for b.Loop() {
				b.StopTimer()
				for id := range at {
					numbers[id] = next(&at[id], id, round, random)
				}
				timeMs := testStartMs + int64(round)*testIntervalMs
				b.StartTimer()
				for i, id := range ids {
					if warmed && i%WarmMax == 0 {
						set.Warm(ids[i:min(i+WarmMax, count)])
					}
					n := numbers[id]
					if err := set.Append(id, timeMs, n.Mantissa, n.Scale, 0); err != nil {
						b.Fatal(err)
					}
				}
				samples += count
				round++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
			b.ReportMetric(float64(set.Stats().Bytes())/float64(count), "B/series")
			b.ReportMetric(float64(log.bytes)/float64(samples), "B/sealed-sample")
		})
	}
}
