// Package envelope encodes what groups say to each other: messages of many groups from one node to another, as bytes with
// a checksum. What a message means, and whether a group is to believe it, is known by replica alone; here is refused only
// what no sender of this version writes.
package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// An envelope carries messages of many groups from one node to another:
//
//	version u8, run uvarint, messages, crc32c u32 (little endian, of all before it)
//
// A message:
//
//	type u8, fields u8, shard, to, from, term uvarint, then those fields whose bit is
//	set: log term (1), index (2), commit (4), reject hint (8, the bit itself says
//	"rejected"), context (16: length, bytes), entries (32: count, then of each:
//	type u8, term uvarint, length, data; their indexes follow on index)
//
// An envelope without messages says that its sender lives.
const version = 1

// Err marks bytes that are not an envelope of this version.
var Err = errors.New("not an envelope")

// Bounds of an envelope's parts.
const (
	entriesMax = 1 << 16
	// ContextBytesMax bounds the context of a message. A snapshot's meta is the largest.
	ContextBytesMax = 64 << 10
)

// Type is what a message is: the library's own that travel, and the Host's. The numbers are
// part of the protocol between nodes.
type Type uint8

// The types.
const (
	App Type = iota + 1
	AppResp
	Vote
	VoteResp
	PreVote
	PreVoteResp
	Heartbeat
	HeartbeatResp
	TimeoutNow
	Snapshot  // from the leader: entries up to index are truncated; context: SnapshotMeta
	Hibernate // from the leader: all have everything up to index, nobody ticks
	Durable   // to the leader: the sender's engine has applied index durably
	Trim      // from the leader: no member needs entries up to index
	TakeOver  // to the leader: the sender asks to lead
)

// Message is one message of a group, with the fields of the library's messages.
type Message struct {
	Kind    Type
	Shard   uint16
	To      uint64
	From    uint64
	Term    uint64
	LogTerm uint64
	Index   uint64
	Commit  uint64
	Reject  bool
	Hint    uint64
	Context []byte
	Entries []*pb.Entry
}

const (
	hasLogTerm = 1 << iota
	hasIndex
	hasCommit
	hasReject
	hasContext
	hasEntries
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Begin appends the head of an envelope of a start of the sender.
func Begin(dst []byte, run uint64) []byte {
	return binary.AppendUvarint(append(dst, version), run)
}

// End appends the checksum, after which the envelope is whole.
func End(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

// AppendTo appends the message's encoding.
func (m *Message) AppendTo(dst []byte) []byte {
	var fields byte
	set := func(bit byte, there bool) {
		if there {
			fields |= bit
		}
	}
	set(hasLogTerm, m.LogTerm != 0)
	set(hasIndex, m.Index != 0)
	set(hasCommit, m.Commit != 0)
	set(hasReject, m.Reject)
	set(hasContext, len(m.Context) > 0)
	set(hasEntries, len(m.Entries) > 0)
	dst = append(dst, byte(m.Kind), fields)
	dst = binary.AppendUvarint(dst, uint64(m.Shard))
	dst = binary.AppendUvarint(dst, m.To)
	dst = binary.AppendUvarint(dst, m.From)
	dst = binary.AppendUvarint(dst, m.Term)
	for _, f := range [3]struct {
		bit   byte
		value uint64
	}{{hasLogTerm, m.LogTerm}, {hasIndex, m.Index}, {hasCommit, m.Commit}} {
		if fields&f.bit != 0 {
			dst = binary.AppendUvarint(dst, f.value)
		}
	}
	if m.Reject {
		dst = binary.AppendUvarint(dst, m.Hint)
	}
	if fields&hasContext != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(m.Context)))
		dst = append(dst, m.Context...)
	}
	if fields&hasEntries != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(m.Entries)))
		for _, e := range m.Entries {
			dst = append(dst, byte(e.GetType()))
			dst = binary.AppendUvarint(dst, e.GetTerm())
			dst = binary.AppendUvarint(dst, uint64(len(e.GetData())))
			dst = append(dst, e.GetData()...)
		}
	}
	return dst
}

// BytesMost bounds the message's encoding, so that it is made room for once.
func (m *Message) BytesMost() int {
	n := 128 + len(m.Context)
	for _, e := range m.Entries {
		n += 16 + len(e.GetData())
	}
	return n
}

// Open checks an envelope and returns its sender's run and its messages' bytes.
func Open(b []byte) (run uint64, d Decoder, err error) {
	if len(b) < 6 || b[0] != version {
		return 0, d, fmt.Errorf("%w: %d bytes, or another version than %d", Err, len(b), version)
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli()) != sum {
		return 0, d, fmt.Errorf("%w: checksum", Err)
	}
	d.Rest = body[1:]
	if run = d.Uvarint(); d.Broken {
		return 0, d, fmt.Errorf("%w: run", Err)
	}
	return run, d, nil
}

// Message reads the next message. Its entries and context point into the envelope.
// What would let the library panic is refused here, as far as it can be seen.
func (d *Decoder) Message(m *Message) {
	*m = Message{Kind: Type(d.Byte())}
	fields := d.Byte()
	m.Shard = uint16(d.UvarintMax(1<<16 - 1))
	m.To, m.From, m.Term = d.Uvarint(), d.Uvarint(), d.Uvarint()
	if fields&hasLogTerm != 0 {
		m.LogTerm = d.Uvarint()
	}
	if fields&hasIndex != 0 {
		m.Index = d.Uvarint()
	}
	if fields&hasCommit != 0 {
		m.Commit = d.Uvarint()
	}
	if m.Reject = fields&hasReject != 0; m.Reject {
		m.Hint = d.Uvarint()
	}
	if fields&hasContext != 0 {
		if m.Context = d.bytes(); len(m.Context) > ContextBytesMax {
			d.fail()
		}
	}
	if fields&hasEntries != 0 {
		d.entries(m)
	}
	if !d.Broken && !m.valid(fields) {
		d.fail()
	}
}

func (d *Decoder) entries(m *Message) {
	n := d.UvarintMax(entriesMax)
	if n > uint64(len(d.Rest))/3 { // each has three bytes or more
		d.fail()
		return
	}
	m.Entries = make([]*pb.Entry, 0, n)
	term := m.LogTerm
	for i := range n {
		e := NewEntry(pb.EntryType(d.Byte()), d.Uvarint(), m.Index+1+i, nil)
		e.Data = d.bytes()
		change := e.GetType() == pb.EntryConfChangeV2
		if d.Broken || e.GetTerm() < term || e.GetTerm() > m.Term || !change && e.GetType() != pb.EntryNormal ||
			change && proto.Unmarshal(e.Data, &pb.ConfChangeV2{}) != nil {
			d.fail()
			return
		}
		term = e.GetTerm()
		m.Entries = append(m.Entries, e)
	}
}

// valid reports whether the message's fields belong to its type.
func (m *Message) valid(fields byte) bool {
	var allowed byte
	switch m.Kind {
	case App:
		allowed = hasLogTerm | hasIndex | hasCommit | hasEntries
	case AppResp:
		allowed = hasLogTerm | hasIndex | hasCommit | hasReject
	case Vote, PreVote:
		allowed = hasLogTerm | hasIndex | hasContext
	case VoteResp, PreVoteResp:
		allowed = hasReject
	case Heartbeat:
		allowed = hasCommit | hasContext
	case HeartbeatResp: // index: the configuration that the member has logged
		allowed = hasContext | hasIndex
	case TimeoutNow:
	case Snapshot:
		allowed = hasLogTerm | hasIndex | hasContext
	case Hibernate, Durable, Trim, TakeOver:
		allowed = hasIndex
	default:
		return false
	}
	const indexMost = 1 << 62 // sums of indexes do not wrap
	if fields&^allowed != 0 || m.To == 0 || m.From == 0 || m.To == m.From || m.Term == 0 ||
		m.LogTerm > m.Term && m.Kind != AppResp || max(m.Index, m.Commit, m.Hint, m.Term) > indexMost {
		return false
	}
	if m.To > indexMost || m.From > indexMost { // the library has ids of its own up there
		return false
	}
	reading := m.Kind == Heartbeat || m.Kind == HeartbeatResp
	return !reading || len(m.Context) == 0 || len(m.Context) == 8
}

// Library returns the library's type for one that travels.
func (t Type) Library() (pb.MessageType, bool) {
	switch t {
	case App:
		return pb.MsgApp, true
	case AppResp:
		return pb.MsgAppResp, true
	case Vote:
		return pb.MsgVote, true
	case VoteResp:
		return pb.MsgVoteResp, true
	case PreVote:
		return pb.MsgPreVote, true
	case PreVoteResp:
		return pb.MsgPreVoteResp, true
	case Heartbeat:
		return pb.MsgHeartbeat, true
	case HeartbeatResp:
		return pb.MsgHeartbeatResp, true
	case TimeoutNow:
		return pb.MsgTimeoutNow, true
	case Snapshot, Hibernate, Durable, Trim, TakeOver:
	}
	return 0, false
}
