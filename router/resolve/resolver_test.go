package resolve

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
)

func keyOf(n, length int) series.Key {
	value := fmt.Appendf(nil, "%08d", n)
	for len(value) < length {
		value = append(value, 'x')
	}
	return series.AppendKey(nil, []byte("db"), []byte("m"), []series.Tag{{Name: []byte("t"), Value: value}})
}

func resolveOne(r *Resolver, key series.Key) (series.Ref, bool) {
	refs := make([]series.Ref, 1)
	r.Resolve(series.HintNone, []series.Key{key}, refs)
	return refs[0], refs[0].Hint != series.HintNone
}

// What is found is what was learnt last in the shard's present era, whatever was
// evicted, in rings that wrap and grow.
func TestAgainstMap(t *testing.T) {
	const shards = 3
	rapid.Check(t, func(t *rapid.T) {
		r := New(shards, rapid.Int64Range(0, 4*BytesMin).Draw(t, "bytes"))
		type entry struct {
			id  series.ID
			era uint32
		}
		model, eras := map[string]entry{}, [shards]uint32{}
		lengths := rapid.SampledFrom([]int{8, 60, 3000, 60_000}).Draw(t, "lengths")
		shardOf := func(n int) uint16 { return uint16(n % shards) }
		for range rapid.IntRange(1, 16).Draw(t, "operations") {
			seed := rapid.Uint64().Draw(t, "seed")
			rng := rand.New(rand.NewPCG(seed, 1))
			switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
			case kind == 0:
				shard := uint16(rng.IntN(shards))
				r.Forget(shard, eras[shard])
				eras[shard] = 0
			case kind <= 5:
				for range rng.IntN(200) {
					n := rng.IntN(3000)
					shard := shardOf(n)
					key := keyOf(n, 8+rng.IntN(2)*(n%(lengths-7)))
					era := max(1, eras[shard])
					if rng.IntN(300) == 0 {
						era += uint32(rng.IntN(3)) - 1
					}
					id := series.ID(rng.IntN(1000))
					r.Learn(key, shard, id, era)
					if era >= max(1, eras[shard]) {
						eras[shard] = era
						model[string(key)] = entry{id, era}
					}
				}
			default:
				var keys []series.Key
				for range rng.IntN(700) {
					n := rng.IntN(3000)
					keys = append(keys, keyOf(n, 8+rng.IntN(2)*(n%(lengths-7))))
				}
				refs := make([]series.Ref, len(keys))
				r.Resolve(rng.Uint32(), keys, refs)
				for i, ref := range refs {
					if ref.Hint == series.HintNone {
						continue
					}
					want, ok := model[string(keys[i])]
					if !ok || ref.ID != want.id || want.era != eras[ref.Shard] {
						t.Fatalf("%v: found %+v, want %+v in era %d (known: %v)", keys[i], ref, want, eras[ref.Shard], ok)
					}
				}
			}
		}
		checkTables(t, r)
	})
}

// checkTables walks every ring and compares it with its slots.
func checkTables(t *rapid.T, r *Resolver) {
	for i := range r.stripes {
		s := &r.stripes[i].mu.table
		if bytes := int64(len(s.ring) + slotBytes*len(s.slots)); bytes > s.bytesMax {
			t.Fatalf("stripe %d has %d bytes, more than %d", i, bytes, s.bytesMax)
		}
		records := map[int]bool{}
		for at, left := s.head, s.used; left > 0; {
			if at == len(s.ring) {
				at = 0
			}
			n := len(s.ring) - at
			if binary.LittleEndian.Uint32(s.ring[at:]) != 0 {
				records[at] = true
				n = recordBytes(len(s.keyAt(at)))
			}
			at, left = at+n, left-n
			if left < 0 {
				t.Fatalf("stripe %d: records go beyond the end", i)
			}
		}
		live := 0
		for _, slot := range s.slots {
			if uint32(slot) == 0 {
				continue
			}
			live++
			if !records[position(slot)] {
				t.Fatalf("stripe %d: a slot points to %d, where no record begins", i, position(slot))
			}
			delete(records, position(slot))
		}
		if live != s.live {
			t.Fatalf("stripe %d: %d live slots, counted %d", i, live, s.live)
		}
	}
}

// Series that are written all the time stay, though many more come once.
func TestChurn(t *testing.T) {
	const budget, rounds = 8 << 20, 8
	r := New(128, budget)
	hot := 0
	for ; ; hot++ { // as many as fit
		key := keyOf(hot, 40)
		r.Learn(key, key.Shard(128), 1, 1)
		if r.Stats().Evicted > 0 {
			break
		}
	}
	if hot < budget/150 {
		t.Errorf("only %d series of 50 bytes fit in %d bytes", hot, budget)
	}
	hot = hot * 8 / 10
	keys, refs := make([]series.Key, hot), make([]series.Ref, hot)
	for i := range keys {
		keys[i] = keyOf(i, 40)
	}
	once, missed := hot, 0
	for round := range rounds {
		r.Resolve(series.HintNone, keys, refs)
		for i := range refs {
			if refs[i].Hint == series.HintNone {
				if round > 0 {
					missed++
				}
				r.Learn(keys[i], keys[i].Shard(128), 1, 1)
			}
		}
		for range hot / 4 {
			once++
			key := keyOf(once+1_000_000, 40)
			r.Learn(key, key.Shard(128), 1, 1)
		}
	}
	if share := float64(missed) / float64(hot*(rounds-1)); share > 0.05 {
		t.Errorf("%.1f %% of what is always in use was evicted; %v", 100*share, r.Stats())
	}
	if s := r.Stats(); s.Bytes > budget {
		t.Errorf("%d bytes, more than %d", s.Bytes, budget)
	}
}

// Whoever resolves in a generation, and finds the era unchanged since, has ids of
// that era only. An id tells its era here.
func TestErasDoNotMix(t *testing.T) {
	const shards, seriesCount, eraMax = 2, 500, 100
	r := New(shards, BytesMin)
	keys := make([]series.Key, seriesCount)
	for i := range keys {
		keys[i] = keyOf(i, 20)
	}
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 2 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for era := uint32(1); era <= eraMax; era++ {
				for range 50 {
					i := rng.IntN(seriesCount)
					r.Learn(keys[i], uint16(i%shards), series.ID(era), era)
				}
				if rng.IntN(4) == 0 {
					r.Forget(0, era)
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			refs := make([]series.Ref, seriesCount)
			for {
				select {
				case <-done:
					return
				default:
				}
				generation := r.Generation()
				r.Resolve(series.HintNone, keys, refs)
				for shard := range uint16(shards) {
					era, ok := r.Era(shard, generation)
					for i, ref := range refs {
						if ok && ref.Hint != series.HintNone && uint16(i%shards) == shard && uint32(ref.ID) != era {
							t.Errorf("an id of era %d under era %d", ref.ID, era)
							return
						}
					}
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

func TestResolveDoesNotAllocate(t *testing.T) {
	r := New(128, 8<<20)
	keys, refs := make([]series.Key, 1000), make([]series.Ref, 1000)
	for i := range keys {
		keys[i] = keyOf(i, 30)
		r.Learn(keys[i], keys[i].Shard(128), series.ID(i+1), 1)
	}
	if n := testing.AllocsPerRun(100, func() { r.Resolve(series.HintNone, keys, refs) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range refs {
		if refs[i].ID != series.ID(i+1) || refs[i].Shard != keys[i].Shard(128) || refs[i].Hint != uint32(i) {
			t.Fatalf("series %d is %+v", i, refs[i])
		}
	}
}

// Keys and ids that no node returns are not learnt.
func TestLearnOdd(t *testing.T) {
	r := New(1, BytesMin)
	r.Learn(keyOf(1, 8), 0, series.SlotBase, 1)
	r.Learn(keyOf(1, 8), 0, 1, 0)
	r.Learn(keyOf(1, 8), 0, 1, eraEnding)
	r.Learn(make([]byte, series.KeyBytesMax+1), 0, 1, 1)
	if s := r.Stats(); s.Series != 0 {
		t.Error(s)
	}
	longest := keyOf(2, series.KeyBytesMax-20)
	r.Learn(longest, 0, 7, 1)
	if ref, ok := resolveOne(r, longest); !ok || ref.ID != 7 {
		t.Errorf("the longest key: %+v, %v", ref, ok)
	}
}

// A shard's first series has the id 0.
func TestLearnFirstAndLast(t *testing.T) {
	r := New(1, BytesMin)
	for i, id := range []series.ID{0, 1, series.IDMax} {
		r.Learn(keyOf(i, 8), 0, id, 1)
		if ref, ok := resolveOne(r, keyOf(i, 8)); !ok || ref.ID != id {
			t.Errorf("id %d: %+v, %v", id, ref, ok)
		}
		r.Learn(keyOf(i, 8), 0, 5, 1)
		r.Learn(keyOf(i, 8), 0, id, 1)
		if ref, ok := resolveOne(r, keyOf(i, 8)); !ok || ref.ID != id {
			t.Errorf("id %d, again: %+v, %v", id, ref, ok)
		}
	}
}

// BenchmarkResolve looks a million series up, 512 keys at a time, in the order of
// their creation and in random order.
func BenchmarkResolve(b *testing.B) {
	const count, batch = 1 << 20, 512
	r := New(128, 512<<20)
	keys, refs := make([]series.Key, count), make([]series.Ref, batch)
	for i := range keys {
		keys[i] = keyOf(i, 60)
		r.Learn(keys[i], keys[i].Shard(128), series.ID(i+1), 1)
	}
	shuffled := make([]series.Key, count)
	for i, j := range rand.Perm(count) {
		shuffled[i] = keys[j]
	}
	for name, order := range map[string][]series.Key{"ordered": keys, "random": shuffled} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n, at := 0, 0
			for b.Loop() {
				r.Resolve(series.HintNone, order[at:at+batch], refs)
				n, at = n+batch, (at+batch)%count
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/key")
			b.ReportMetric(float64(r.Stats().Bytes)/count, "B/series")
		})
	}
}

func BenchmarkLearn(b *testing.B) {
	r := New(128, 64<<20)
	keys := make([]series.Key, 1<<20)
	for i := range keys {
		keys[i] = keyOf(i, 60)
	}
	i := 0
	for b.Loop() {
		r.Learn(keys[i], 5, 1, 1)
		i = (i + 1) % len(keys)
	}
}
