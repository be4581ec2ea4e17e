package ingest

import (
	"bufio"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// atRest returns the numbers of workers and writes at rest.
func (r *running) atRest() (workers, writes int) {
	r.workers.mu.Lock()
	defer r.workers.mu.Unlock()
	return len(r.workers.mu.resting), len(r.workers.mu.idle)
}

// While writes wait for their answers, one worker has parsed and split them all.
func TestWaitingWritesHoldNoWorker(t *testing.T) {
	gate := make(chan struct{})
	r := start(t, nil)
	line := func(i int) string { return fmt.Sprintf("m,n=%d value=%d 1700000000", i%4, i) }
	for i := range 4 { // the series are known
		r.post(t, request("/write?precision=s", line(i)))
	}
	eventually(t, "the worker at rest", func() bool { workers, _ := r.atRest(); return workers == 1 && len(r.workers.slots) == 0 })
	r.beforeWrites(gated(gate))
	var waiting []*net.TCPConn
	for i := range 20 {
		to, text := r.Addresses().HTTP, request("/write?precision=s", line(i))
		if i%2 == 1 {
			to, text = r.Addresses().Line, line(i)+"\n"
		}
		c := dial(t, to)
		send(t, c, text)
		waiting = append(waiting, c)
		eventually(t, "the worker back", func() bool { workers, _ := r.atRest(); return workers == 1 && len(r.workers.slots) == i+1 })
	}
	// What may be asked for when the answer comes keeps its worker: new series, bad lines,
	// commands.
	for i, text := range []string{request("/write?precision=s", "m,n=new value=1"), request("/write?precision=s", line(0)+"\nbad"), "put m 1700000000 1 n=0\nversion\n"} {
		to := r.Addresses().HTTP
		if i == 2 {
			to = r.Addresses().Put
		}
		kept := dial(t, to)
		send(t, kept, text)
		if i == 2 {
			waiting = append(waiting, kept)
		}
		eventually(t, "a worker kept", func() bool { workers, _ := r.atRest(); return workers == 0 && len(r.workers.slots) == 21+i })
	}
	close(gate)
	for i, c := range waiting {
		if i%2 == 1 {
			continue // silent
		}
		if i == 20 {
			answer := make([]byte, len(versionAnswer))
			if _, err := io.ReadFull(c, answer); err != nil || string(answer) != versionAnswer {
				t.Errorf("a command behind a point: %q, %v", answer, err)
			}
			break
		}
		if response, body := readAnswer(t, bufio.NewReader(c)); response.StatusCode != 204 || response.Header.Get(headerCopies) != "2" {
			t.Errorf("%d %s, %v", response.StatusCode, body, response.Header)
		}
	}
	eventually(t, "all answered", func() bool { workers, writes := r.atRest(); return workers == 3 && writes == 23 })
}

// Ids of another era: what left without its worker is parsed, split and written once
// more, under the same id, and no second time.
func TestFlightOfAnotherEra(t *testing.T) {
	for _, again := range []int{1, 2} {
		once := &onceMemory{memory: newMemory(testShards), applied: map[string]bool{}}
		eras := &eraWriter{Writer: once, memory: once.memory}
		r := start(t, func(o *Options) { o.Writer, o.Resolver, o.Generation = eras, once.memory, eras.generation })
		sample := block(series1([]string{"__name__", "m", "n", "1"}, sample{1, 1_700_000_000_000}))
		key := "Idempotency-Key: a"
		posts := []struct{ target, body string }{
			{"/write?precision=s", "m,n=1 value=1 1700000000\n"}, {"/api/put?details", "put m 1700000000 1 n=1\n"}, {"/api/v1/write", sample},
		}
		for _, p := range posts {
			if response, text := r.post(t, request(p.target, p.body)); response.StatusCode/100 != 2 {
				t.Fatalf("%s: %d %s", p.target, response.StatusCode, text)
			}
			eras.renumber(again)
			once.ids = nil
			response, text := r.post(t, request(p.target, p.body, key))
			if want := []int{2, 5}[again-1]; response.StatusCode/100 != want {
				t.Errorf("%s, %d eras: %d %s", p.target, again, response.StatusCode, text)
			}
			if again == 1 && (len(once.ids) != 1 || eras.ids[0] != once.ids[0] || eras.generations[0] == eras.generations[1]) {
				t.Errorf("%s: ids %v and %v of generations %v", p.target, eras.ids, once.ids, eras.generations)
			}
			if len(eras.ids) != 2 {
				t.Errorf("%s, %d eras: %d writes, want 2", p.target, again, len(eras.ids))
			}
			eras.renumber(0)
		}
		eras.renumber(again)
		put := dial(t, r.Addresses().Put) // a connection tries until it is taken
		send(t, put, "put m 1700000001 1 n=1\n")
		eventually(t, "the put line stored", func() bool { return once.value("m{n=1}", 1_700_000_001_000) == 1 })
		if got := r.metric(t, "tickmesh_ingest_points_total", "outcome=accepted"); got != float64(3+3*(2-again)+1) {
			t.Errorf("%d eras: %v points accepted", again, got)
		}
		once.check(t)
	}
}

// eraWriter refuses frames whose ids are of an era that has ended, and ends eras.
type eraWriter struct {
	Writer
	memory *memory

	mu          sync.Mutex
	now         uint64
	left        int // eras that are to end, one with each write
	ids         []series.BatchID
	generations []uint64
}

func (w *eraWriter) generation() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// renumber lets so many of the next writes find that their era has ended.
func (w *eraWriter) renumber(eras int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.ids, w.generations = eras, nil, nil
}

func (w *eraWriter) Write(ctx context.Context, frame *series.Frame) (series.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids, w.generations = append(w.ids, frame.ID), append(w.generations, frame.Generation)
	if w.left > 0 {
		w.left--
		w.now++
		w.memory.forgetIDs()
	}
	if frame.Generation != w.now {
		return series.Outcome{}, series.ErrEra
	}
	return w.Writer.Write(ctx, frame)
}

// forgetIDs forgets which ids series had; new ones are other ones.
func (m *memory) forgetIDs() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.ids)
	clear(m.keys)
}

// slowWriter looks whether a frame changes while others are parsed and split.
type slowWriter struct {
	Writer
	seed maphash.Seed
	t    *testing.T
}

func (w *slowWriter) sum(frame *series.Frame) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	fmt.Fprintln(&h, frame.Points, frame.ID, frame.Level, frame.Generation)
	for _, part := range frame.Parts {
		fmt.Fprintln(&h, part.Shard, len(part.Batch))
		_, _ = h.Write(part.Batch)
	}
	return h.Sum64()
}

func (w *slowWriter) Write(ctx context.Context, frame *series.Frame) (series.Outcome, error) {
	before := w.sum(frame)
	for range rand.IntN(200) {
		runtime.Gosched()
	}
	outcome, err := w.Writer.Write(ctx, frame)
	if w.sum(frame) != before {
		w.t.Error("a frame has changed before it was answered")
	}
	return outcome, err
}

// Many connections at once, series that come up, bad lines, eras that end: each point is
// stored once with its value, and counted.
func TestManyFlights(t *testing.T) {
	m := newMemory(testShards)
	eras := &eraWriter{Writer: m, memory: m}
	slow := &slowWriter{Writer: eras, seed: maphash.MakeSeed(), t: t}
	r := start(t, func(o *Options) { o.Writer, o.Resolver, o.Generation = slow, m, eras.generation })
	const clients, requests, lines = 12, 40, 6
	bodies := func(client, number int) (body string, bad bool, stored []string) {
		var b strings.Builder
		for l := range lines {
			seconds, value := 1_700_000_000+number*lines+l, client*1_000_000+number*lines+l
			device := fmt.Sprintf("%d.%d", client, (number/8+l)%5) // a new one now and then
			fmt.Fprintf(&b, "m,device=%s value=%d,f=%d %d\n", device, value, -value, seconds)
			stored = append(stored, fmt.Sprintf("m{device=%s} %d000 %v", device, seconds, float64(value)),
				fmt.Sprintf("m{_field=f,device=%s} %d000 %v", device, seconds, float64(-value)))
		}
		if bad = number%9 == 8; bad {
			b.WriteString("bad\n")
		}
		return b.String(), bad, stored
	}
	var all sync.WaitGroup
	var want []string
	for client := range clients {
		for number := range requests {
			_, _, stored := bodies(client, number)
			want = append(want, stored...)
		}
		c := dial(t, r.Addresses().HTTP)
		all.Go(func() {
			from := bufio.NewReader(c)
			for number := range requests {
				body, bad, _ := bodies(client, number)
				status := map[bool]int{false: 204, true: 400}[bad]
				for tries := 0; ; tries++ {
					if number%10 == 5 && tries == 0 {
						eras.endOne()
					}
					_, _ = io.WriteString(c, request("/write?precision=s", body))
					response, text := readAnswer(t, from)
					if response.StatusCode == status {
						break
					}
					if response.StatusCode != 503 || tries > 1000 { // two eras may end during one write
						t.Errorf("%d %s", response.StatusCode, text)
						return
					}
				}
			}
		})
	}
	all.Wait()
	slices.Sort(want)
	if got := m.stored(); !slices.Equal(got, want) {
		t.Errorf("%d points stored, want %d, or others", len(got), len(want))
	}
	m.check(t)
	if got := r.metric(t, "tickmesh_ingest_points_total", "outcome=accepted"); got != float64(len(want)) {
		t.Errorf("%v points accepted, want %d", got, len(want))
	}
}

// endOne lets the era end with the next write.
func (w *eraWriter) endOne() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left++
}

// What is at rest has a bound.
func TestRestIsBounded(t *testing.T) {
	r := start(t, func(o *Options) { o.Limits.WritesMax = restingMax + 10 })
	var writes []*inFlightWrite
	for range restingMax + 10 {
		fl, err := r.workers.take(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, fl)
	}
	for _, fl := range writes {
		r.workers.rest(fl)
	}
	if workers, writes := r.atRest(); workers != restingMax || writes != restingMax+10 {
		t.Errorf("%d workers and %d writes at rest", workers, writes)
	}
	var body strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&body, "m value=%d%017d %d\n", 1+i%9, i*7919%1_000_003, 1_700_000_000+i*i%1_000_003)
	}
	for range 2 { // with a known series the second one leaves
		if response, text := r.post(t, request("/write?precision=s", body.String())); response.StatusCode != 204 {
			t.Fatalf("%d %s", response.StatusCode, text)
		}
	}
	eventually(t, "no write", func() bool { return len(r.workers.slots) == 0 })
	r.workers.mu.Lock()
	defer r.workers.mu.Unlock()
	for _, fl := range r.workers.mu.idle {
		if n := fl.encoded.MemoryBytes(); n > restingFrameBytesMax {
			t.Errorf("a write at rest holds %d bytes", n)
		}
	}
}
