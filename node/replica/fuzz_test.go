package replica

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// seal returns fuzzed bytes the checksum that lets them in.
func seal(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body[:len(body):len(body)], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// sampleMessages has each type once.
func sampleMessages() []envelope.Message {
	meta := SnapshotMeta{Position: Position{7, 2}, Era: 1, Configuration: fresh(members(full, full, witness))}
	entries := []Entry{{Kind: KindEmpty, Term: 2, Index: 8}, {Kind: 1, Term: 3, Index: 9, Body: []byte("body")}, {Kind: KindChange, Term: 3, Index: 10}}
	app := envelope.Message{Kind: envelope.App, Index: 7, LogTerm: 2, Commit: 6}
	for _, e := range entries {
		app.Entries = append(app.Entries, toRaft(e))
	}
	out := []envelope.Message{
		app,
		{Kind: envelope.AppResp, Index: 9},
		{Kind: envelope.AppResp, Index: 9, Reject: true, Hint: 4, LogTerm: 1},
		{Kind: envelope.Vote, Index: 9, LogTerm: 2, Context: []byte("CampaignTransfer")},
		{Kind: envelope.VoteResp, Reject: true},
		{Kind: envelope.PreVote, Index: 9, LogTerm: 2},
		{Kind: envelope.PreVoteResp},
		{Kind: envelope.Heartbeat, Commit: 5, Context: make([]byte, 8)},
		{Kind: envelope.HeartbeatResp, Index: 4, Context: make([]byte, 8)},
		{Kind: envelope.TimeoutNow},
		{Kind: envelope.Snapshot, Index: 7, LogTerm: 2, Context: meta.AppendTo(nil)},
		{Kind: envelope.Hibernate, Index: 9},
		{Kind: envelope.Durable, Index: 9},
		{Kind: envelope.Trim, Index: 9},
		{Kind: envelope.TakeOver},
	}
	for i := range out {
		out[i].To, out[i].From, out[i].Term = 2, 1, 3
	}
	return out
}

func FuzzGroupState(f *testing.F) {
	s := GroupState{Replica: Replica{Shard: 9, RaftID: 3, Era: 2, Role: shardmap.Full}, Term: 4, Vote: 3, Commit: 17,
		Truncated: Position{5, 2}, Configuration: fresh(members(full, full, witness, learner))}
	f.Add(s.AppendTo(nil))
	s.Configuration.Outgoing, s.Configuration.AutoLeave, s.Configuration.Leaving = []uint64{1, 2, 9}, true, members(full)
	f.Add(s.AppendTo(nil))
	s.Installing = SnapshotMeta{Position: Position{20, 4}, Era: 3, Configuration: fresh(members(full))}
	f.Add(s.AppendTo(nil))
	f.Add((&GroupState{Replica: Replica{Shard: 1, RaftID: 1}, Removed: true}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		state, err := ParseGroupState(b)
		if err != nil {
			return
		}
		again, err := ParseGroupState(state.AppendTo(nil))
		if err != nil || !reflect.DeepEqual(state, again) {
			t.Fatalf("%+v became %+v: %v", state, again, err)
		}
	})
}

// FuzzReceive lets a Host that is in the middle of things hear anything. It must go on
// without a panic, whatever becomes of the groups.
func FuzzReceive(f *testing.F) {
	for _, m := range sampleMessages() {
		for shard := range uint16(4) {
			m.Shard, m.To = shard, uint64(1+shard%2)
			f.Add(m.AppendTo(envelope.Begin(nil, 1)))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t, 3, 1)
		n := w.nodes[0]
		w.disk(n, 0, 2, fresh(members(full, full, full)), 9)
		w.disk(n, 1, 1, fresh(members(full, full, full)), 0)
		w.disk(n, 2, 1, fresh(members(full)), 4)
		w.disk(n, 3, 2, Configuration{}, 0)
		w.start(n)
		for shard := range uint16(4) {
			_ = n.host.Propose(shard, 1, [][]byte{[]byte("x")}, 1)
			_ = n.host.Read(shard, 2)
		}
		for range 3 {
			_ = n.host.Receive("n1", seal(body)) // refused, or not: it goes on
			for range 12 {
				n.host.Tick()
				if n.host.Ready(&n.round) {
					w.write(n, len(n.round.States)+len(n.round.Appends))
					n.host.Advance(&n.round)
				}
			}
		}
	})
}

// disk makes a replica on n with a log of entries of term 2, all committed.
func (w *world) disk(n *testNode, shard uint16, id uint64, config Configuration, last uint64) {
	state := GroupState{Replica: Replica{Shard: shard, RaftID: id, Era: 1, Role: full}, Configuration: config, Commit: last}
	if last > 0 {
		state.Term = 2
	}
	d := &testDisk{state: state, entries: map[uint64]Entry{}, last: last}
	for i := uint64(1); i <= last; i++ {
		d.entries[i] = Entry{Kind: 1, Term: 2, Index: i, Body: []byte("b")}
	}
	n.disk[shard], n.engine[shard] = d, &testEngine{applied: last, durable: last, data: map[uint64]string{}}
}
