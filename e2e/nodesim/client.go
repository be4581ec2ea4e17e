package nodesim

import (
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage"
)

// sampleKey names a register: one time of one series. Each belongs to one client.
type sampleKey struct {
	shard  uint16
	client int
	time   int64
}

func (k sampleKey) series() series.Key {
	for i := 0; ; i++ {
		if key := series.AppendKey(nil, nil, fmt.Appendf(nil, "c%d-%d", k.client, i), nil); key.Shard(shards) == k.shard {
			return key
		}
	}
}

// truth is what a register may have: the last value that was answered, or one of those of
// which nobody knows what became.
type truth struct {
	answered float64
	unknown  map[float64]bool
}

func (t *truth) check(w *world, where string, key sampleKey, got float64) {
	if got != t.answered && !t.unknown[got] {
		w.fail("%s has %v of %v, answered was %v", where, got, key, t.answered)
	}
}

// client writes and reads its own registers, one operation after the other.
type client struct {
	world   *world
	number  int
	session uint64
	counter uint64
	guess   int
	open    bool
}

func (c *client) next() {
	w := c.world
	if w.healed {
		return
	}
	key := sampleKey{uint16(w.rng.IntN(shards)), c.number, 1_700_000_000_000 + w.rng.Int64N(3)}
	is := w.known[key]
	if is == nil {
		is = &truth{unknown: map[float64]bool{}}
		w.known[key] = is
	}
	c.open = true
	deadline := w.now + 1_500_000
	if w.chance(3) {
		c.read(key, is, deadline)
		return
	}
	c.counter++
	value := float64(c.counter)
	is.unknown[value] = true
	c.write(key, is, value, deadline)
}

func (c *client) end() {
	c.open = false
	c.world.after(c.world.between(1000, 20_000), c.next)
}

// attempt sends something to a node, and hears of its answer or of none.
func (c *client) attempt(send func(p *process, answer func(good bool)), done, again func()) {
	w := c.world
	over := false
	finish := func(good bool) {
		if over {
			return
		}
		if over = true; good {
			done()
			return
		}
		c.guess++
		w.after(w.between(1000, 20_000), again)
	}
	n := w.nodes[c.guess%len(w.nodes)]
	w.after(w.between(20, 300), func() {
		if p := n.process; p != nil {
			send(p, func(good bool) { w.after(w.between(20, 300), func() { finish(good) }) })
		}
	})
	w.after(300_000, func() { finish(false) })
}

func (c *client) write(key sampleKey, is *truth, value float64, deadline int64) {
	w := c.world
	if w.now > deadline {
		c.end()
		return
	}
	id := series.BatchID{Session: c.session, Counter: c.counter}
	c.attempt(func(p *process, answer func(bool)) {
		var e series.BatchEncoder
		e.Append(e.Define(key.series()), key.time, int64(value), 0)
		write := commit.NewWrite(id, 1)
		write.Add(storage.EntrySamples, key.shard, e.AppendTo(nil))
		write.Done = func() { answer(write.FirstError() == nil) }
		write.Begin()
		p.writes = append(p.writes, write)
		p.wake()
	}, func() {
		w.stats.Writes++
		is.answered = value
		delete(is.unknown, value)
		w.note("answered", uint64(c.number), uint64(value))
		c.end()
	}, func() { c.write(key, is, value, deadline) })
}

func (c *client) read(key sampleKey, is *truth, deadline int64) {
	w := c.world
	if w.now > deadline {
		c.end()
		return
	}
	var got float64
	c.attempt(func(p *process, answer func(bool)) {
		p.confirm(key.shard, func(good bool) {
			if good {
				got = p.read(key)
			}
			answer(good)
		})
	}, func() {
		w.stats.Reads++
		is.check(w, "a read", key, got)
		c.end()
	}, func() { c.read(key, is, deadline) })
}
