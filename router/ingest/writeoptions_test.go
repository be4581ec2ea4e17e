package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
)

// onceMemory applies each part of a frame once for each id, as nodes do. Several
// routers may write to it. A part that is lost is not applied.
type onceMemory struct {
	*memory
	lose func(shard uint16) bool // nil: none

	mu      sync.Mutex
	applied map[string]bool // guarded by mu: shard and id
	levels  []series.Level  // guarded by mu: of all frames
	ids     []series.BatchID
}

func (m *onceMemory) Write(ctx context.Context, frame *series.Frame) (series.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.levels, m.ids = append(m.levels, frame.Level), append(m.ids, frame.ID)
	lost := false
	for i := range frame.Parts {
		part := frame.Parts[i]
		place := fmt.Sprint(part.Shard, frame.ID)
		if !frame.ID.IsZero() && m.applied[place] {
			continue
		}
		if m.lose != nil && m.lose(part.Shard) {
			lost = true
			continue
		}
		var r series.BatchReader
		for r.Reset(part.Batch); ; {
			if _, ok := r.NextDefinition(); !ok {
				break
			}
		}
		if _, err := m.memory.Write(ctx, &series.Frame{Parts: []series.Part{part}, Points: r.Points()}); err != nil {
			return series.Outcome{}, err
		}
		m.applied[place] = true
	}
	if lost {
		return series.Outcome{}, series.ErrUnavailable
	}
	return series.Outcome{Copies: 2}, nil
}

// forgetful is a router's cache that knows only some series.
type forgetful struct {
	*memory
	knows func() bool
}

func (f forgetful) Resolve(hint uint32, keys []series.Key, refs []series.Ref) {
	f.memory.Resolve(hint, keys, refs)
	for i := range refs {
		if !f.knows() {
			refs[i] = series.Ref{Hint: series.HintNone}
		}
	}
}

// startTwo starts two routers that write to one memory; the second one's cache knows
// series at random.
func startTwo(t *testing.T) (*onceMemory, [2]*running) {
	t.Helper()
	once := &onceMemory{memory: newMemory(testShards), applied: map[string]bool{}}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	first := start(t, func(o *Options) { o.Writer, o.Resolver = once, once.memory })
	second := start(t, func(o *Options) {
		o.Writer = once
		o.Resolver = forgetful{once.memory, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(2) == 0
		}}
	})
	t.Cleanup(func() { once.check(t) })
	return once, [2]*running{first, second}
}

// A request with a key that is repeated through any router, after parts of it were
// lost, applies what was lost and nothing twice: values written meanwhile stay where
// the request was applied before.
func TestRepeatedKeyAppliesOnlyWhatWasLost(t *testing.T) {
	once, routers := startTwo(t)
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		lines := rapid.IntRange(1, 60).Draw(rt, "lines")
		large := rapid.IntRange(0, 29).Draw(rt, "large") == 7
		var first, between strings.Builder
		tag := ""
		if large { // several pieces
			lines, tag = 3, ",long="+strings.Repeat("x", 15_000)
		}
		for i := range lines {
			fields := "value=1"
			for f := range 200 {
				if !large {
					break
				}
				fields += fmt.Sprintf(",f%d=1", f)
			}
			fmt.Fprintf(&first, "m%d,run=%d%s %s %d\n", i, number, tag, fields, 1_700_000_000+i)
			fmt.Fprintf(&between, "m%d,run=%d%s %s %d\n", i, number, tag, strings.ReplaceAll(fields, "=1", "=2"), 1_700_000_000+i)
		}
		lostShards := map[uint16]bool{}
		for shard := range uint16(testShards) {
			lostShards[shard] = rapid.Bool().Draw(rt, "lost")
		}
		via := func() *running { return routers[rapid.IntRange(0, 1).Draw(rt, "router")] }
		key := fmt.Sprintf("Idempotency-Key: key %d", number)
		target := rapid.SampledFrom([]string{"/write?precision=s&db=d", "/api/v2/write?precision=s&bucket=d"}).Draw(rt, "target")
		set := func(lose func(uint16) bool) {
			once.mu.Lock()
			defer once.mu.Unlock()
			once.lose = lose
		}
		lost := false
		set(func(shard uint16) bool {
			lost = lost || lostShards[shard]
			return lostShards[shard]
		})
		response, _ := via().post(t, request(target, first.String(), key))
		set(nil)
		if want := map[bool]int{false: 204, true: 503}[lost]; response.StatusCode != want {
			rt.Fatalf("the first time: %d, want %d", response.StatusCode, want)
		}
		before := once.stored()
		if response, text := via().post(t, request(target, between.String())); response.StatusCode != 204 {
			rt.Fatalf("in between: %d %s", response.StatusCode, text)
		}
		for range 2 {
			if response, text := via().post(t, request(target, first.String(), key)); response.StatusCode != 204 {
				rt.Fatalf("again: %d %s", response.StatusCode, text)
			}
		}
		after := once.stored()
		run := fmt.Sprintf("run=%d}", number)
		for _, line := range before { // applied the first time, so overwritten for good
			if strings.HasSuffix(line, " 1") && strings.Contains(line, run) {
				if want := strings.TrimSuffix(line, " 1") + " 2"; !slices.Contains(after, want) {
					rt.Fatalf("%s has an old value again", line)
				}
			}
		}
	})
}

// What names a write, and what makes it another one.
func TestKeysNameWrites(t *testing.T) {
	once, routers := startTwo(t)
	ids := map[series.BatchID]string{}
	post := func(target, body string, headers ...string) series.BatchID {
		t.Helper()
		once.mu.Lock()
		once.ids = nil
		once.mu.Unlock()
		for _, router := range routers {
			if response, text := router.post(t, request(target, body, headers...)); response.StatusCode != 204 {
				t.Fatalf("%s: %d %s", target, response.StatusCode, text)
			}
		}
		once.mu.Lock()
		defer once.mu.Unlock()
		if len(once.ids) != 2 || once.ids[0] != once.ids[1] {
			t.Fatalf("%s: two routers give %v", target, once.ids)
		}
		return once.ids[0]
	}
	const line = "m value=1 1700000000000000000\n"
	if id := post("/write?db=d", line); !id.IsZero() {
		t.Errorf("without a key: %v", id)
	}
	for name, id := range map[string]series.BatchID{
		"base":           post("/write?db=d", line, "Idempotency-Key: a"),
		"key":            post("/write?db=d", line, "Idempotency-Key: b"),
		"database":       post("/write?db=e", line, "Idempotency-Key: a"),
		"body":           post("/write?db=d", line+"\n", "Idempotency-Key: a"),
		"precision":      post("/write?db=d&precision=n", line, "Idempotency-Key: a"),
		"extra label":    post("/write?db=d&extra_label=a=b", line, "Idempotency-Key: a"),
		"format":         post("/write?db=d&format=5", line, "Idempotency-Key: a"),
		"timestamp":      post("/write?db=d&timestamp=5", line, "Idempotency-Key: a"),
		"path":           post("/api/v2/write?bucket=d", line, "Idempotency-Key: a"),
		"put":            post("/api/put", onePoint, "Idempotency-Key: a"),
		"put of another": post("/api/put", onePoint, "Idempotency-Key: "+strings.Repeat("k", idempotencyKeyBytesMax)),
	} {
		if other, taken := ids[id]; taken || !id.IsKeyed() || id.Session == 0 {
			t.Errorf("%s: %v, as of %q", name, id, other)
		}
		ids[id] = name
	}
	if again := post("/write?db=d", gzipped(line), "Idempotency-Key: a", "Content-Encoding: gzip"); ids[again] != "base" {
		t.Errorf("compressed it is %v, another write", again)
	}
}

func TestHeadersOfPromises(t *testing.T) {
	once := &onceMemory{memory: newMemory(testShards), applied: map[string]bool{}}
	r := start(t, func(o *Options) { o.Writer, o.Resolver = once, once.memory })
	const line = "m value=1 1700000000000000000\n"
	for _, bad := range [][]string{
		{"Idempotency-Key:"}, {"Idempotency-Key: " + strings.Repeat("k", idempotencyKeyBytesMax+1)},
		{"Idempotency-Key: \xc3\xa9"}, {"Idempotency-Key: a", "Idempotency-Key: b"},
		{"X-Tickmesh-Level: most"},
	} {
		name, _, _ := strings.Cut(bad[0], ":")
		for target, body := range map[string]string{
			"/write": line, "/api/v2/write": line, "/api/write": line, "/api/put": onePoint, "/api/put?details": onePoint, "/api/v1/write": "",
		} {
			headers := bad
			if target == "/api/v1/write" {
				headers = append([]string{"Content-Encoding: identity"}, bad...)
			}
			if response, text := r.post(t, request(target, body, headers...)); response.StatusCode != 400 || !strings.Contains(text, name) {
				t.Errorf("%s %q: %d %s", target, bad, response.StatusCode, text)
			}
		}
	}
	if stored := r.stored(); len(stored) != 0 || len(once.levels) != 0 {
		t.Errorf("stored: %q", stored)
	}
	for _, c := range []struct {
		target, header string
		want           series.Level
	}{
		{"/write", "X-Tickmesh-Level: all", series.LevelAll}, {"/write", "X-Tickmesh-Level: majority", series.LevelMajority},
		{"/write?consistency=all", "X: y", series.LevelAll}, {"/write?consistency=quorum", "X: y", series.LevelMajority},
		{"/api/v2/write", "X-Tickmesh-Level: all", series.LevelAll}, {"/write", "X: y", series.LevelMajority},
	} {
		if response, text := r.post(t, request(c.target, line, c.header)); response.StatusCode != 204 {
			t.Errorf("%s: %d %s", c.target, response.StatusCode, text)
		}
		if got := once.levels[len(once.levels)-1]; got != c.want {
			t.Errorf("%s %s: level %d", c.target, c.header, got)
		}
	}
}

// A write that has fewer copies than were asked for is 503, with how many there are.
func TestTooFewCopies(t *testing.T) {
	r := start(t, nil)
	r.beforeWrites(func(context.Context) error {
		return fmt.Errorf("shard 1: %w", &series.CopiesError{Copies: 1, Missing: 1})
	})
	for target, body := range map[string]string{"/write": "m value=1 1700000000000000000\n", "/api/put": onePoint, "/api/put?summary": onePoint} {
		response, text := r.post(t, request(target, body, "X-Tickmesh-Level: all"))
		if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" || response.Header.Get(headerCopies) != "1" ||
			!strings.Contains(target, "?") && !strings.Contains(text, "written in 1 copies and not undone") {
			t.Errorf("%s: %d %v %s", target, response.StatusCode, response.Header, text)
		}
	}
}
