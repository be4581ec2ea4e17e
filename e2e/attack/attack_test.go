package attack

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	if target := os.Getenv(goodKey); target != "" {
		if err := goodMain(target); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
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

// In the long form, the P99 of good clients is judged in each phase that is long enough for it.
const (
	p99FactorMax = 3 // how much longer than in calm they may wait
	judgedMin    = 2 * time.Second
	calmShort    = 2 * time.Second
	calmLong     = 30 * time.Second
	phaseLong    = 10 * time.Second
	bombLong     = 3 * time.Second
)

func TestWithUsers(t *testing.T)    { siege(t, true) }
func TestWithoutUsers(t *testing.T) { siege(t, false) }

// phases run attacks one after the other while good clients are served, and judge each.
type phases struct {
	g       *ground
	clients *clients
	calm    map[string]latencies
}

// startPhases starts good clients and watches them in calm.
func startPhases(t *testing.T, g *ground) *phases {
	t.Helper()
	p := &phases{g: g, clients: startGood(t, g)}
	pause(t, time.Second) // until their connections stand, and the series is known
	p.clients.take(t)
	length := calmShort
	if *long {
		length = calmLong
	}
	g.calmShare = g.share(t, length)
	p.calm = p.clients.take(t)
	t.Logf("calm: writes %v; reads %v; %.2f cores", p.calm["write"], p.calm["read"], g.calmShare)
	return p
}

// step runs an attack, in the long form over and over for a time, and says what fell. What the
// attack gives back is called after good clients have been judged.
func (p *phases) step(t *testing.T, name string, length time.Duration, attack func(*testing.T) (after func(*testing.T))) {
	t.Run(name, func(t *testing.T) {
		p.clients.take(t)
		defer p.judge(t) // also where the attack fails the test: the next one wants a server
		begin := time.Now()
		after := attack(t)
		for *long && time.Since(begin) < length && !t.Failed() && p.g.ended() == nil {
			after = attack(t)
		}
		took := time.Since(begin)
		under := p.clients.take(t)
		t.Logf("writes %v; reads %v", under["write"], under["read"])
		for kind, l := range under {
			if *long && took >= judgedMin && (l.count == 0 || l.p99 > p99FactorMax*p.calm[kind].p99) {
				t.Errorf("the P99 of %ss is %v, in calm %v", kind, l.p99, p.calm[kind].p99)
			}
		}
		if after != nil {
			after(t)
		}
	})
}

// judge tells what fell in a phase, so that the next one is judged by itself.
func (p *phases) judge(t *testing.T) {
	t.Helper()
	p.g.alive(t)
	p.g.spy.report(t)
	p.clients.take(t)
	p.clients.report(t)
}

// storms has storms rage, each for a time by itself in the long form, whose P99 is told of each. In
// the short form they rage at once, for twice the time of one.
func (p *phases) storms(t *testing.T, all []storm, each time.Duration) {
	if *long {
		for _, s := range all {
			p.step(t, "storm at "+s.name, phaseLong, once(func(t *testing.T) { s.rage(t, *seed, p.g.spy, scaled(each)) }))
		}
		return
	}
	p.step(t, "storms", 0, once(func(t *testing.T) {
		var raging sync.WaitGroup
		for _, s := range all {
			raging.Go(func() { s.rage(t, *seed, p.g.spy, 2*each) })
		}
		raging.Wait()
	}))
}

// once is an attack that leaves nothing behind to be looked at.
func once(attack func(*testing.T)) func(*testing.T) func(*testing.T) {
	return func(t *testing.T) func(*testing.T) { attack(t); return nil }
}

// siege runs every scenario against one server, while good clients are served.
func siege(t *testing.T, users bool) {
	t.Logf("seed %d", *seed)
	g := newGround(t, *seed, users)
	p := startPhases(t, g)
	p.storms(t, g.storms(), 1500*time.Millisecond)
	p.step(t, "many connections", phaseLong, once(func(t *testing.T) {
		for _, address := range []string{g.at.HTTP, g.at.Put, g.at.Line, g.at.Graphite, g.at.OTLP, g.grpc, g.metrics} {
			defer flood(t, address, 500)()
		}
		pause(t, scaled(time.Second))
	}))
	if users {
		p.step(t, "endpoints", phaseLong, once(g.tryEndpoints))
		p.step(t, "calls", phaseLong, once(g.tryCalls))
		p.step(t, "destruction", phaseLong, once(g.tryToDestroy))
		p.step(t, "issuer", 0, once(g.tryIssuer))
		p.step(t, "forgeries", phaseLong, once(g.tryForgeries))
		p.step(t, "replay", 0, once(g.tryReplay))
		p.step(t, "made tokens", 0, once(g.tryMadeTokens))
		p.step(t, "guessing", phaseLong, once(g.tryGuessing))
	}
	p.step(t, "pages", phaseLong, once(g.tryPages))
	p.step(t, "streams of nobody", phaseLong, once(func(t *testing.T) { g.floodStreams(t, "/tickmesh.v1.WriteService/Write") }))
	for i, b := range bombs() {
		// Without users, bombs fall on the same code: a third of them is enough.
		if !users && i%3 != int(*seed%3) {
			continue
		}
		p.step(t, "bomb "+b.name, bombLong, func(t *testing.T) func(*testing.T) { return g.throw(t, b) })
	}
	if users {
		p.step(t, "withdrawn key", 0, once(g.tryWithdrawnKey))
	}
	p.clients.stop()
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
	for _, address := range []string{g.at.HTTP, g.at.Put, g.at.Line, g.at.Graphite, g.at.OTLP, g.grpc, g.metrics} {
		defer flood(t, address, 200)()
	}
	pause(t, 200*time.Millisecond)
	g.alive(t)
	begin := time.Now()
	switch err := g.server.Terminate(shutdownTimeout + shutdownSlack); {
	case err != nil && !errors.Is(err, harness.ErrStopTimeout) && strings.Contains(g.server.LogTail(1<<16), leftOpen):
		t.Logf("the data folder was left open: %v", err)
	case err != nil:
		t.Errorf("the end after SIGTERM: %v\n%v", err, g.ended())
	}
	t.Logf("ended %v after SIGTERM; at most %d MiB resident", time.Since(begin).Round(time.Millisecond), g.peak>>20)
	cancel()
	all.Wait()
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
