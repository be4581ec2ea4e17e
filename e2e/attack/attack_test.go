package attack

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

var (
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "what is sent")
	long = flag.Bool("long", false, "longer storms, and the P99 of good clients is judged")
)

// built is the program, made once for all tests.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "tickmesh-attack-"); built.err == nil {
			built.path, built.err = harness.Build(context.Background(), built.dir)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

// scaled is a time that is longer in the long form.
func scaled(short time.Duration) time.Duration {
	if *long {
		return 10 * short
	}
	return short
}

// p99FactorMax is how much longer than in calm the good clients may wait, in the long form.
const p99FactorMax = 3

func TestWithUsers(t *testing.T)    { siege(t, true) }
func TestWithoutUsers(t *testing.T) { siege(t, false) }

// siege runs every scenario against one server, while good clients are served.
func siege(t *testing.T, users bool) {
	t.Logf("seed %d", *seed)
	g := newGround(t, *seed, users)
	clients := startGood(g)
	defer clients.stop()
	pause(t, scaled(3*time.Second))
	calm := clients.take()
	t.Logf("calm: writes %v; reads %v", calm["write"], calm["read"])
	step := func(name string, attack func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			attack(t)
			g.alive(t)
			g.spy.report(t)
			clients.report(t)
			under := clients.take()
			t.Logf("writes %v; reads %v", under["write"], under["read"])
			for kind, l := range under {
				if *long && l.p99 > p99FactorMax*calm[kind].p99 {
					t.Errorf("the P99 of %ss is %v, in calm %v", kind, l.p99, calm[kind].p99)
				}
			}
		})
	}
	for _, s := range g.storms() {
		step("storm at "+s.name, func(t *testing.T) { s.rage(t, *seed, g.spy, scaled(1500*time.Millisecond)) })
	}
	step("many connections", func(t *testing.T) {
		for _, address := range []string{g.at.HTTP, g.at.Put, g.at.Line, g.grpc} {
			defer flood(t, address, 500)()
		}
		pause(t, scaled(time.Second))
	})
	if users {
		step("endpoints", g.tryEndpoints)
		step("calls", g.tryCalls)
		step("destruction", g.tryToDestroy)
		step("forgeries", g.tryForgeries)
		step("replay", g.tryReplay)
		step("guessing", g.tryGuessing)
	}
	step("pages", g.tryPages)
	step("streams of nobody", func(t *testing.T) { g.floodStreams(t, "/tickmesh.v1.WriteService/Write") })
	for i, b := range bombs() {
		// Without users, bombs fall on the same code: a third of them is enough for a short run.
		if !users && !*long && i%3 != int(*seed%3) {
			continue
		}
		step("bomb "+b.name, func(t *testing.T) { g.throw(t, b) })
	}
	clients.stop()
	g.checkVault(t)
	g.checkEnd(t)
}

func pause(t *testing.T, length time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(length):
	}
}

// floodStreams holds streams with parts of messages on several connections.
func (g *ground) floodStreams(t *testing.T, method string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scaled(3*time.Second))
	defer cancel()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			sent := floodStreamsOf(ctx, t, g.grpc, method)
			t.Logf("%d MiB were taken of the messages of one connection", sent>>20)
		})
	}
	all.Wait()
}

// leftOpen is what a server logs whose time was up before requests gave the data folder free.
// That is no clean end, but one in time, and nothing is lost by it.
const leftOpen = "the process ends without closing it"

// checkEnd ends the server while it is asked for what takes long, and says what it has taken.
func (g *ground) checkEnd(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, b := range bombs() {
		if b.works {
			body := b.body()
			all.Go(func() { g.call(ctx, attacker(0), userOther, b.method, b.target, b.header, body) })
		}
	}
	release := flood(t, g.at.HTTP, 200)
	pause(t, 200*time.Millisecond)
	g.alive(t)
	begin := time.Now()
	switch err := g.server.Terminate(shutdownTimeout + shutdownSlack); {
	case err != nil && !errors.Is(err, harness.ErrStopTimeout) && strings.Contains(g.server.LogTail(1<<16), leftOpen):
		t.Logf("the data folder was left open: %v", err)
	case err != nil:
		t.Errorf("the end after SIGTERM: %v\n%s", err, g.firstTrouble())
	}
	t.Logf("ended %v after SIGTERM; at most %d MiB resident", time.Since(begin).Round(time.Millisecond), g.peak>>20)
	cancel()
	all.Wait()
	release()
	g.start(t)
	g.checkVault(t)
	if g.group == nil {
		if g.peak > memoryMax {
			t.Errorf("%d bytes were resident, more than %d", g.peak, memoryMax)
		}
		return
	}
	if kills, err := g.group.Kills(); err != nil || kills != 0 {
		t.Errorf("the kernel has ended %d processes because %d bytes were full (%v)", kills, memoryMax, err)
	}
}
