package replica

import (
	"encoding/binary"
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
const envelopeVersion = 1

// Bounds of an envelope's parts.
const (
	entriesMax      = 1 << 16
	contextBytesMax = 64 << 10 // a snapshot's meta is the largest
)

// Types of messages: the library's own that travel, and the Host's. Their numbers are
// part of the protocol between nodes.
type messageType uint8

const (
	typeApp messageType = iota + 1
	typeAppResp
	typeVote
	typeVoteResp
	typePreVote
	typePreVoteResp
	typeHeartbeat
	typeHeartbeatResp
	typeTimeoutNow
	typeSnapshot  // from the leader: entries up to index are truncated; context: SnapshotMeta
	typeHibernate // from the leader: all have everything up to index, nobody ticks
	typeDurable   // to the leader: the sender's engine has applied index durably
	typeTrim      // from the leader: no member needs entries up to index
	typeTakeOver  // to the leader: the sender asks to lead
)

// message is one group's, decoded.
type message struct {
	kind    messageType
	shard   uint16
	to      uint64
	from    uint64
	term    uint64
	logTerm uint64
	index   uint64
	commit  uint64
	reject  bool
	hint    uint64
	context []byte
	entries []*pb.Entry
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

func beginEnvelope(dst []byte, run uint64) []byte {
	return binary.AppendUvarint(append(dst, envelopeVersion), run)
}

func endEnvelope(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

// appendTo appends the message's encoding.
func (m *message) appendTo(dst []byte) []byte {
	var fields byte
	set := func(bit byte, there bool) {
		if there {
			fields |= bit
		}
	}
	set(hasLogTerm, m.logTerm != 0)
	set(hasIndex, m.index != 0)
	set(hasCommit, m.commit != 0)
	set(hasReject, m.reject)
	set(hasContext, len(m.context) > 0)
	set(hasEntries, len(m.entries) > 0)
	dst = append(dst, byte(m.kind), fields)
	dst = binary.AppendUvarint(dst, uint64(m.shard))
	dst = binary.AppendUvarint(dst, m.to)
	dst = binary.AppendUvarint(dst, m.from)
	dst = binary.AppendUvarint(dst, m.term)
	for _, f := range [3]struct {
		bit   byte
		value uint64
	}{{hasLogTerm, m.logTerm}, {hasIndex, m.index}, {hasCommit, m.commit}} {
		if fields&f.bit != 0 {
			dst = binary.AppendUvarint(dst, f.value)
		}
	}
	if m.reject {
		dst = binary.AppendUvarint(dst, m.hint)
	}
	if fields&hasContext != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(m.context)))
		dst = append(dst, m.context...)
	}
	if fields&hasEntries != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(m.entries)))
		for _, e := range m.entries {
			dst = append(dst, byte(e.GetType()))
			dst = binary.AppendUvarint(dst, e.GetTerm())
			dst = binary.AppendUvarint(dst, uint64(len(e.GetData())))
			dst = append(dst, e.GetData()...)
		}
	}
	return dst
}

// bytesMost bounds the message's encoding, so that it is made room for once.
func (m *message) bytesMost() int {
	n := 128 + len(m.context)
	for _, e := range m.entries {
		n += 16 + len(e.GetData())
	}
	return n
}

// openEnvelope checks an envelope and returns its sender's run and its messages' bytes.
func openEnvelope(b []byte) (run uint64, d decoder, err error) {
	if len(b) < 6 || b[0] != envelopeVersion {
		return 0, d, fmt.Errorf("%w: %d bytes, or another version than %d", ErrEnvelope, len(b), envelopeVersion)
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli()) != sum {
		return 0, d, fmt.Errorf("%w: checksum", ErrEnvelope)
	}
	d.rest = body[1:]
	if run = d.uvarint(); d.broken {
		return 0, d, fmt.Errorf("%w: run", ErrEnvelope)
	}
	return run, d, nil
}

// message reads the next message. Its entries and context point into the envelope.
// What would let the library panic is refused here, as far as it can be seen.
func (d *decoder) message(m *message) {
	*m = message{kind: messageType(d.byte())}
	fields := d.byte()
	m.shard = uint16(d.uvarintMax(1<<16 - 1))
	m.to, m.from, m.term = d.uvarint(), d.uvarint(), d.uvarint()
	if fields&hasLogTerm != 0 {
		m.logTerm = d.uvarint()
	}
	if fields&hasIndex != 0 {
		m.index = d.uvarint()
	}
	if fields&hasCommit != 0 {
		m.commit = d.uvarint()
	}
	if m.reject = fields&hasReject != 0; m.reject {
		m.hint = d.uvarint()
	}
	if fields&hasContext != 0 {
		if m.context = d.bytes(); len(m.context) > contextBytesMax {
			d.fail()
		}
	}
	if fields&hasEntries != 0 {
		d.entries(m)
	}
	if !d.broken && !m.valid(fields) {
		d.fail()
	}
}

func (d *decoder) entries(m *message) {
	n := d.uvarintMax(entriesMax)
	if n > uint64(len(d.rest))/3 { // each has three bytes or more
		d.fail()
		return
	}
	m.entries = make([]*pb.Entry, 0, n)
	term := m.logTerm
	for i := range n {
		e := newEntry(pb.EntryType(d.byte()), d.uvarint(), m.index+1+i, nil)
		e.Data = d.bytes()
		change := e.GetType() == pb.EntryConfChangeV2
		if d.broken || e.GetTerm() < term || e.GetTerm() > m.term || !change && e.GetType() != pb.EntryNormal ||
			change && proto.Unmarshal(e.Data, &pb.ConfChangeV2{}) != nil {
			d.fail()
			return
		}
		term = e.GetTerm()
		m.entries = append(m.entries, e)
	}
}

// valid reports whether the message's fields belong to its type.
func (m *message) valid(fields byte) bool {
	var allowed byte
	switch m.kind {
	case typeApp:
		allowed = hasLogTerm | hasIndex | hasCommit | hasEntries
	case typeAppResp:
		allowed = hasLogTerm | hasIndex | hasCommit | hasReject
	case typeVote, typePreVote:
		allowed = hasLogTerm | hasIndex | hasContext
	case typeVoteResp, typePreVoteResp:
		allowed = hasReject
	case typeHeartbeat:
		allowed = hasCommit | hasContext
	case typeHeartbeatResp: // index: the configuration that the member has logged
		allowed = hasContext | hasIndex
	case typeTimeoutNow:
	case typeSnapshot:
		allowed = hasLogTerm | hasIndex | hasContext
	case typeHibernate, typeDurable, typeTrim, typeTakeOver:
		allowed = hasIndex
	default:
		return false
	}
	const indexMost = 1 << 62 // sums of indexes do not wrap
	if fields&^allowed != 0 || m.to == 0 || m.from == 0 || m.to == m.from || m.term == 0 ||
		m.logTerm > m.term && m.kind != typeAppResp || max(m.index, m.commit, m.hint, m.term) > indexMost {
		return false
	}
	if m.to > indexMost || m.from > indexMost { // the library has ids of its own up there
		return false
	}
	reading := m.kind == typeHeartbeat || m.kind == typeHeartbeatResp
	return !reading || len(m.context) == 0 || len(m.context) == 8
}
