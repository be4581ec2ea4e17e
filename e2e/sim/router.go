package sim

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/replica"
)

// router is a process that clients talk to.
type router struct {
	world   *World
	id      string
	life    int // differs in each run
	session uint64
	counter uint64
	guess   []int // node, by shard
	cache   [][seriesPerShard]cached
	open    int // operations without an outcome
}

// cached is what a router knows of a series.
type cached struct {
	known bool
	id    uint64
	era   uint32
}

func newRouter(w *World, id string) *router {
	r := &router{world: w, id: id}
	r.begin()
	return r
}

// begin is a start of the router's process.
func (r *router) begin() {
	w := r.world
	r.life++
	w.sessions++
	r.session, r.counter, r.open = w.sessions, 0, 0
	r.guess, r.cache = make([]int, w.options.Shards), make([][seriesPerShard]cached, w.options.Shards)
	life := r.life
	for range w.options.Clients {
		w.after(w.between(0, 50_000), func() { r.next(life) })
	}
	w.newPlacer(func() bool { return r.life == life }, r.id)
}

// operation is what a client asks for: the same of each of some shards.
type operation struct {
	router   *router
	life     int
	id       series.BatchID
	parts    int // without an outcome
	failed   bool
	deadline int64
	kind     operationKind
	began    int64
}

type operationKind uint8

const (
	operationWrite operationKind = iota
	operationDelete
	operationRead
	operationStale
)

// part is an operation's part for one shard, over all of its attempts.
type part struct {
	*operation
	shard   uint16
	samples []sample // by key
	first   uint64   // of a delete
	last    uint64
	series  uint64
	floor   uint64
	era     uint32 // of the shard when it began
	attempt int
	tries   int // since then: see timedRetry
	follows int // of what nodes have said
	done    bool
}

const (
	operationMs = 1500
	attemptMs   = 250
)

// next begins a client's next operation, unless the router has died since.
func (r *router) next(life int) {
	w := r.world
	if r.life != life || w.healed {
		return
	}
	kind := [...]operationKind{operationWrite, operationWrite, operationWrite, operationDelete, operationRead, operationRead, operationRead, operationStale}[w.rng.IntN(8)]
	if w.options.Timed {
		kind = operationWrite
	}
	op := &operation{router: r, life: life, kind: kind, parts: 1, began: w.now, deadline: w.now + w.operationUs()}
	if kind <= operationDelete {
		r.counter++
		op.id = series.BatchID{Session: r.session, Counter: r.counter}
	}
	shard := w.rng.IntN(w.options.Shards)
	if kind == operationWrite && w.options.Shards > 1 && w.chance(4) {
		op.parts = 2
	}
	r.open++
	for i := range op.parts {
		r.begun(op, uint16((shard+i)%w.options.Shards))
	}
}

func (r *router) begun(op *operation, shard uint16) {
	w := r.world
	p := &part{operation: op, shard: shard, series: w.rng.Uint64N(seriesPerShard), floor: w.oracle.floor(shard), era: w.oracle.shards[shard].era}
	switch op.kind {
	case operationWrite:
		for range 1 + w.rng.IntN(3) {
			w.values++
			s := sample{name: w.rng.Uint64N(seriesPerShard), time: w.rng.Uint64N(timesPerSeries), value: w.values}
			w.oracle.written[s.value] = registerOf(shard, s.name, s.time)
			p.samples = append(p.samples, s)
		}
	case operationDelete:
		p.first = w.rng.Uint64N(timesPerSeries)
		p.last = p.first + w.rng.Uint64N(2)
		if w.options.Forget && !w.chance(4) {
			p.first, p.last = 0, timesPerSeries // all, so that the series can be forgotten
		}
		w.oracle.deletes[op.id] = p.series
	case operationStale:
		p.floor = 0
	case operationRead:
	}
	p.try()
}

// request makes the request of an attempt.
func (p *part) request() *request {
	req := &request{shard: p.shard, id: p.id, series: p.series, router: p.router.id}
	switch p.kind {
	case operationWrite:
		ids := true
		for _, s := range p.samples {
			ids = ids && p.router.cache[p.shard][s.name].known
		}
		keys := &p.router.world.keys[p.shard]
		if !ids {
			req.batch = encodeBatch(p.samples, keys, nil)
			break
		}
		req.era = p.router.cache[p.shard][p.samples[0].name].era
		req.batch = encodeBatch(p.samples, keys, &p.router.cache[p.shard])
	case operationDelete:
		req.deletes = &deletion{id: p.id, first: p.first, last: p.last}
	case operationRead:
		req.read = true
	case operationStale:
		req.read, req.stale = true, true
	}
	return req
}

// try makes an attempt.
func (p *part) try() {
	w := p.router.world
	if p.done || p.router.life != p.life {
		return
	}
	if w.now >= p.deadline {
		p.end(false)
		return
	}
	p.attempt++
	w.timing.Attempts++
	attempt := p.attempt
	at := p.router.guess[p.shard] % len(w.nodes)
	if p.kind == operationStale {
		at = w.rng.IntN(len(w.nodes))
	}
	to := w.nodes[at].id
	request := p.request()
	w.network.deliver(p.router.id, to, func() {
		if n := w.node(to); n.process != nil {
			copied := *request
			if request.deletes != nil {
				deletes := *request.deletes
				copied.deletes = &deletes
			}
			copied.answered = func(answer reply) { p.answered(attempt, to, answer) }
			process := n.process
			process.after(w.between(1, 50), func() { process.receive(&copied) })
		}
	})
	w.after(w.attemptUs(), func() {
		if p.attempt == attempt && !p.done {
			p.router.guess[p.shard] = w.rng.IntN(len(w.nodes))
			p.try()
		}
	})
}

// answered takes a node's answer; one to an earlier attempt counts if it is good.
func (p *part) answered(attempt int, from string, answer reply) {
	w := p.router.world
	if p.done || p.router.life != p.life || w.now >= p.deadline {
		return
	}
	if answer.err == nil {
		p.succeeded(from, &answer)
		return
	}
	if attempt != p.attempt {
		return
	}
	p.attempt++ // its timeout is over
	var notLeader *replica.NotLeaderError
	switch {
	case errors.Is(answer.err, series.ErrBatchOld):
		p.end(false)
		return
	case errors.Is(answer.err, series.ErrEra):
		p.router.cache[p.shard] = [seriesPerShard]cached{}
	case errors.As(answer.err, &notLeader) && notLeader.Leader != "":
		for i, n := range w.nodes {
			if n.id == notLeader.Leader {
				p.router.guess[p.shard] = i
			}
		}
	default:
		p.router.guess[p.shard]++
	}
	if w.options.Timed {
		p.timedRetry(notLeader != nil && notLeader.Leader != "")
		return
	}
	w.after(w.between(1000, 30_000), p.try)
}

func (p *part) succeeded(from string, answer *reply) {
	w := p.router.world
	where := fmt.Sprintf("the answer of %s", from)
	switch p.kind {
	case operationWrite:
		w.oracle.acknowledged(p.shard, p.id)
		for i, known := range p.router.cache[p.shard] {
			if known.era != answer.era { // ids of one era go into a batch, never of two
				p.router.cache[p.shard][i] = cached{}
			}
		}
		for i, defined := range answer.defined {
			if defined.known {
				p.router.cache[p.shard][i] = defined
			}
		}
	case operationDelete:
		if !answer.nothing {
			w.oracle.acknowledged(p.shard, p.id)
			break
		}
		w.oracle.checkAbsent(where, p.shard, p.series, p.first, p.last, p.floor, p.era)
	case operationRead:
		w.oracle.checkRead(where, p.shard, p.series, answer.values, p.floor, p.era, true)
	case operationStale:
		w.oracle.checkRead(where, p.shard, p.series, answer.values, 0, p.era, false)
	}
	p.end(true)
}

func (p *part) end(good bool) {
	p.done = true
	p.failed = p.failed || !good
	if p.parts--; p.parts > 0 {
		return
	}
	w, r := p.router.world, p.router
	r.open--
	switch {
	case p.failed:
		w.stats.Failed++
		w.timing.Failed++
	case p.kind == operationWrite:
		w.stats.Writes++
		w.timing.wrote(w.now - p.began)
	case p.kind == operationDelete:
		w.stats.Deletes++
	default:
		w.stats.Reads++
	}
	life := p.life
	w.after(w.between(2000, 40_000), func() { r.next(life) })
}

// timedRetry tries again after a refusal: at once where a node has named the leader.
func (p *part) timedRetry(named bool) {
	w := p.router.world
	if named {
		w.timing.Named++
	} else {
		w.timing.Refused++
	}
	if named && p.follows < timedFollowsMax {
		p.follows++
		w.after(0, p.try)
		return
	}
	p.router.guess[p.shard] %= len(w.nodes) // that a node joins makes nobody another one
	p.tries++
	longest := int64(timedBackoff.Longest(p.tries))
	wait := w.between(longest/2, longest)
	w.timing.SleptUs += wait
	w.after(wait, p.try)
}
