package envelope

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

func FuzzEnvelope(f *testing.F) {
	all := Begin(nil, 5)
	for _, m := range samples() {
		all = m.AppendTo(all)
		f.Add(m.AppendTo(Begin(nil, 1)))
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, body []byte) {
		run, d, err := Open(sealed(body))
		if err != nil {
			return
		}
		again := Begin(nil, run)
		var read []Message
		for len(d.Rest) > 0 {
			var m Message
			if d.Message(&m); d.Broken {
				return
			}
			again = m.AppendTo(again)
			if len(again)-len(body) > 64*(len(read)+1) {
				t.Fatalf("%d bytes became %d", len(body), len(again))
			}
			read = append(read, m)
		}
		run2, d2, err := Open(End(again))
		if err != nil || run2 != run {
			t.Fatalf("run %d became %d: %v", run, run2, err)
		}
		for i := range read {
			var m Message
			if d2.Message(&m); d2.Broken || !sameMessage(&m, &read[i]) {
				t.Fatalf("message %d: %+v became %+v", i, read[i], m)
			}
		}
		if len(d2.Rest) > 0 {
			t.Fatal("bytes too many")
		}
	})
}

func sameMessage(a, b *Message) bool {
	if len(a.Entries) != len(b.Entries) || string(a.Context) != string(b.Context) {
		return false
	}
	for i := range a.Entries {
		x, y := a.Entries[i], b.Entries[i]
		if x.GetIndex() != y.GetIndex() || x.GetTerm() != y.GetTerm() || x.GetType() != y.GetType() || string(x.GetData()) != string(y.GetData()) {
			return false
		}
	}
	x, y := *a, *b
	x.Entries, y.Entries, x.Context, y.Context = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

func TestEnvelopeIsChecked(t *testing.T) {
	b := Begin(nil, 5)
	for _, m := range samples() {
		b = m.AppendTo(b)
	}
	b = End(b)
	if _, d, err := Open(b); err != nil {
		t.Fatal(err)
	} else {
		for _, want := range samples() {
			var m Message
			if d.Message(&m); d.Broken || !sameMessage(&m, &want) {
				t.Fatalf("%+v became %+v", want, m)
			}
		}
	}
	for i := range b {
		damaged := append([]byte(nil), b...)
		damaged[i] ^= 0x10
		if _, _, err := Open(damaged); err == nil {
			t.Fatalf("damage at %d is not noticed", i)
		}
		if _, _, err := Open(b[:i]); err == nil {
			t.Fatalf("a cut at %d is not noticed", i)
		}
	}
}

// sealed returns fuzzed bytes with the checksum that lets them in.
func sealed(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body[:len(body):len(body)], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// samples has each type once, with all that it may have.
func samples() []Message {
	entries := []*pb.Entry{NewEntry(pb.EntryNormal, 2, 8, nil), NewEntry(pb.EntryNormal, 3, 9, []byte("body")), NewEntry(pb.EntryConfChangeV2, 3, 10, nil)}
	out := []Message{
		{Kind: App, Index: 7, LogTerm: 2, Commit: 6, Entries: entries},
		{Kind: AppResp, Index: 9, Reject: true, Hint: 4, LogTerm: 1, Commit: 3},
		{Kind: TimeoutNow},
	}
	for kind := range TakeOver + 1 {
		m := Message{Kind: kind}
		switch kind {
		case Vote, PreVote, Snapshot:
			m.Index, m.LogTerm, m.Context = 9, 2, []byte("context")
		case VoteResp, PreVoteResp:
			m.Reject = true
		case Heartbeat:
			m.Commit, m.Context = 5, make([]byte, 8)
		case HeartbeatResp:
			m.Index, m.Context = 4, make([]byte, 8)
		case Hibernate, Durable, Trim, TakeOver:
			m.Index = 9
		default:
			continue
		}
		out = append(out, m)
	}
	for i := range out {
		out[i].To, out[i].From, out[i].Term = 2, 1, 3
	}
	return out
}
