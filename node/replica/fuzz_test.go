package replica

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// seal returns fuzzed bytes the checksum that lets them in.
func seal(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body[:len(body):len(body)], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// sampleMessages has each type once.
func sampleMessages() []message {
	meta := SnapshotMeta{Position: Position{7, 2}, Era: 1, Configuration: fresh(members(full, full, witness))}
	entries := []Entry{{Kind: KindEmpty, Term: 2, Index: 8}, {Kind: 1, Term: 3, Index: 9, Body: []byte("body")}, {Kind: KindChange, Term: 3, Index: 10}}
	app := message{kind: typeApp, index: 7, logTerm: 2, commit: 6}
	for _, e := range entries {
		app.entries = append(app.entries, toRaft(e))
	}
	out := []message{
		app,
		{kind: typeAppResp, index: 9},
		{kind: typeAppResp, index: 9, reject: true, hint: 4, logTerm: 1},
		{kind: typeVote, index: 9, logTerm: 2, context: []byte("CampaignTransfer")},
		{kind: typeVoteResp, reject: true},
		{kind: typePreVote, index: 9, logTerm: 2},
		{kind: typePreVoteResp},
		{kind: typeHeartbeat, commit: 5, context: make([]byte, 8)},
		{kind: typeHeartbeatResp, index: 4, context: make([]byte, 8)},
		{kind: typeTimeoutNow},
		{kind: typeSnapshot, index: 7, logTerm: 2, context: meta.AppendTo(nil)},
		{kind: typeHibernate, index: 9},
		{kind: typeDurable, index: 9},
		{kind: typeTrim, index: 9},
		{kind: typeTakeOver},
	}
	for i := range out {
		out[i].to, out[i].from, out[i].term = 2, 1, 3
	}
	return out
}

func FuzzEnvelope(f *testing.F) {
	all := beginEnvelope(nil, 5)
	for _, m := range sampleMessages() {
		all = m.appendTo(all)
		f.Add(m.appendTo(beginEnvelope(nil, 1)))
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, body []byte) {
		run, d, err := openEnvelope(seal(body))
		if err != nil {
			return
		}
		again := beginEnvelope(nil, run)
		var read []message
		for len(d.rest) > 0 {
			var m message
			if d.message(&m); d.broken {
				return
			}
			again = m.appendTo(again)
			if len(again)-len(body) > 64*(len(read)+1) {
				t.Fatalf("%d bytes became %d", len(body), len(again))
			}
			read = append(read, m)
		}
		run2, d2, err := openEnvelope(endEnvelope(again))
		if err != nil || run2 != run {
			t.Fatalf("run %d became %d: %v", run, run2, err)
		}
		for i := range read {
			var m message
			if d2.message(&m); d2.broken || !sameMessage(&m, &read[i]) {
				t.Fatalf("message %d: %+v became %+v", i, read[i], m)
			}
		}
		if len(d2.rest) > 0 {
			t.Fatal("bytes too many")
		}
	})
}

func sameMessage(a, b *message) bool {
	if len(a.entries) != len(b.entries) || string(a.context) != string(b.context) {
		return false
	}
	for i := range a.entries {
		x, y := a.entries[i], b.entries[i]
		if x.GetIndex() != y.GetIndex() || x.GetTerm() != y.GetTerm() || x.GetType() != y.GetType() || string(x.GetData()) != string(y.GetData()) {
			return false
		}
	}
	x, y := *a, *b
	x.entries, y.entries, x.context, y.context = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

func TestEnvelopeIsChecked(t *testing.T) {
	b := beginEnvelope(nil, 5)
	for _, m := range sampleMessages() {
		b = m.appendTo(b)
	}
	b = endEnvelope(b)
	if _, d, err := openEnvelope(b); err != nil {
		t.Fatal(err)
	} else {
		for _, want := range sampleMessages() {
			var m message
			if d.message(&m); d.broken || !sameMessage(&m, &want) {
				t.Fatalf("%+v became %+v", want, m)
			}
		}
	}
	for i := range b {
		damaged := append([]byte(nil), b...)
		damaged[i] ^= 0x10
		if _, _, err := openEnvelope(damaged); err == nil {
			t.Fatalf("damage at %d is not noticed", i)
		}
		if _, _, err := openEnvelope(b[:i]); err == nil {
			t.Fatalf("a cut at %d is not noticed", i)
		}
	}
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
			m.shard, m.to = shard, uint64(1+shard%2)
			f.Add(m.appendTo(beginEnvelope(nil, 1)))
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
