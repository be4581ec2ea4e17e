package replica

import "testing"

// When a node comes back that many groups have waited for, leaders read for it from their logs no more
// at a time than they may, and it gets everything.
func TestReadsForMembersThatLag(t *testing.T) {
	const shards, entries, size, most = 12, 12, 200, 2048
	w := newWorld(t, 1, 3)
	for shard := range uint16(shards) {
		w.fresh(shard, members(full, full, full))
	}
	w.until("leaders", func() bool {
		for shard := range uint16(shards) {
			if w.leaderOf(shard) == nil {
				return false
			}
		}
		return true
	})
	lagging := w.nodes[2]
	w.crash(lagging)
	for range entries {
		for shard := range uint16(shards) {
			if n := w.leaderOf(shard); n != nil {
				w.proposeLarge(n, shard, size)
			}
		}
		w.ticks(4)
	}
	w.start(lagging)
	for _, n := range w.nodes {
		n.host.shared.lagging.bytesMax = most
		n.host.Waiting(most) // another node stands
	}
	w.until("it has all", func() bool {
		for shard := range uint16(shards) {
			if n := w.leaderOf(shard); n == nil || lagging.engine[shard].applied < n.engine[shard].applied {
				return false
			}
		}
		return true
	})
}

// All groups of a node read no more than they may until the next Round; one message is always read,
// and one at each tick.
func TestLaggingReads(t *testing.T) {
	const groups, size, most = 100, 1000, 8 * (1000 + 128)
	disk := &testNode{disk: map[uint16]*testDisk{}}
	shared := laggingReads{bytesMax: most}
	var logs []*entryLog
	for shard := range uint16(groups) {
		d := &testDisk{entries: map[uint64]Entry{}}
		for i := uint64(1); i <= 10; i++ {
			d.entries[i] = Entry{Kind: 1, Term: 1, Index: i, Body: make([]byte, size)}
		}
		disk.disk[shard] = d
		logs = append(logs, &entryLog{shard: shard, reader: disk, last: 10, runs: []TermRun{{1, 1}}})
	}
	readAll := func() (read int) {
		for _, l := range logs {
			list, err := l.entries(1, 11, 2*size, &shared)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				read += keptBytes(e)
			}
		}
		return read
	}
	const message = 2 * (size + 129)
	if got := readAll(); got < message || got > most+message {
		t.Errorf("%d bytes were read for one Round of %d", got, most)
	}
	if got := readAll(); got != 0 {
		t.Errorf("%d bytes were read beyond that", got)
	}
	shared.ticked = true
	if got := readAll(); got != message {
		t.Errorf("%d bytes were read after a tick, want a message of %d", got, message)
	}
	shared.bytes, shared.waiting = 0, most
	if got := readAll(); got != 0 {
		t.Errorf("%d bytes were read while as much waits as may", got)
	}
	shared.bytesMax, shared.waiting = 1, 0
	if got := readAll(); got != message {
		t.Errorf("%d bytes were read of a message that is larger than all, want %d", got, message)
	}
}

// A node that starts while more waits for another node than may gives out what it has not applied, and
// may campaign before that.
func TestStartWithoutRoomForReads(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.fresh(0, members(full, full, full))
	w.until("a leader", func() bool { return w.leaderOf(0) != nil })
	for range 4 {
		w.proposeLarge(w.leaderOf(0), 0, 200)
		w.ticks(4)
	}
	n := w.leaderOf(0)
	d := n.disk[0]
	state := d.state
	state.Commit = d.last
	log := LogSummary{Last: d.last}
	for i := state.Truncated.Index + 1; i <= d.last; i++ {
		if e := d.entries[i]; len(log.Runs) == 0 || log.Runs[len(log.Runs)-1].Term != e.Term {
			log.Runs = append(log.Runs, TermRun{i, e.Term})
		}
	}
	for _, campaigns := range []bool{true, false} {
		host, err := New(Config{Node: n.name, Run: 77, Seed: 1, LaggingBytesMax: 1}, n)
		if err != nil {
			t.Fatal(err)
		}
		host.Waiting(1)
		if err := host.Restore(state, log); err != nil {
			t.Fatal(err)
		}
		if campaigns {
			for range 64 {
				if g := host.group(0); g.fault == nil {
					g.tickGroup() // of the host's one, another group has taken what a tick allows
				}
			}
		}
		var round Round
		given := 0
		for host.Ready(&round) {
			given += len(round.Committed)
			host.Advance(&round)
		}
		if g := host.group(0); g.fault != nil {
			t.Fatal(g.fault)
		}
		if want := int(d.last - state.Truncated.Index); given != want {
			t.Errorf("%d entries were given out, want %d (it campaigned first: %v)", given, want, campaigns)
		}
	}
}
