package server

import (
	"log/slog"

	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/transport"
)

// requestMemory is what requests may hold, and the largest that fit into it.
type requestMemory struct {
	inFlight int64 // of requests that write
	waiting  int64 // of lines and replies on TCP that wait, beside it
	kept     int64 // to be used again, beside it
	reads    int64 // of all other requests

	lineBytes, otherBodyBytes int64
	// Of bodies that have to be in memory at once. Bodies of lines are bounded by their flags alone.
	wholeBytes, wholeDecodedBytes int64

	writes int // at once, each of which may hold writeBytes before they are counted
	calls  int // of gRPC at once, each with a window that is not counted
}

const (
	inFlightDefaultMax = 256 << 20
	otherBodyBytes     = 16 << 20
	otherBodySlack     = 256 << 10 // for the answer, and for what the front needs beside a body
	readsPart          = 4         // of what is in flight
	writesMin          = 32
	writesMax          = 256
	writeBytes         = 1 << 20
	callsMin           = 32
	callsMax           = 4096
)

// MemoryMost returns what the shares of requests and queries can use, by flags.
func (s *Settings) MemoryMost() map[memory.Share]int64 {
	wanted := s.inFlightWanted()
	return map[memory.Share]int64{
		memory.Writes:  wanted / 4 * 7,
		memory.Reads:   max(wanted/readsPart, otherBodyBytes+otherBodySlack),
		memory.Calls:   callsMax * transport.ServerStreamWindowBytes,
		memory.Queries: boundOrNone(s.queryMemoryAll),
		memory.Cache:   int64(s.queryCache),
	}
}

// inFlightWanted returns the bytes of requests in flight where there is much memory.
func (s *WriteLimits) inFlightWanted() int64 {
	if s.inFlightBytesMax > 0 {
		return int64(s.inFlightBytesMax)
	}
	return max(inFlightDefaultMax, int64(s.inFlightNeed()))
}

// requestMemory returns the bounds of requests: flags say less than the plan, never more.
func (s *WriteLimits) requestMemory(plan *memory.Plan) (m requestMemory) {
	share := plan.Bound(memory.Writes, memory.Unlimited)
	m.inFlight = min(share/4*3, s.inFlightWanted())
	beside := share - m.inFlight
	m.waiting = min(beside/4, m.inFlight/4)
	m.kept = min(beside/4*3, m.inFlight/2)
	m.reads = plan.Bound(memory.Reads, max(m.inFlight/readsPart, otherBodyBytes+otherBodySlack))
	m.otherBodyBytes = min(otherBodyBytes, m.reads-otherBodySlack)

	room := m.inFlight - inFlightSlack
	m.lineBytes = min(int64(s.lineBytesMax), room)
	// A body gets at least a third of the room, and is no longer than it may be when it is decompressed.
	m.wholeBytes = min(int64(s.bodyBytesMax), max(room/3, room-int64(s.bodyDecodedMax)))
	m.wholeDecodedBytes = min(int64(s.bodyDecodedMax), room-m.wholeBytes)

	m.writes = int(min(max(m.inFlight/writeBytes, writesMin), writesMax))
	calls := plan.Bound(memory.Calls, callsMax*transport.ServerStreamWindowBytes)
	m.calls = int(max(calls/transport.ServerStreamWindowBytes, callsMin))
	return m
}

// ofWhole returns of which bodies memory takes less than their flags say.
const ofWhole = " for bodies that have to be in memory at once: remote writes, JSON, and those with an Idempotency-Key"

// warn describes flags that say more than memory allows.
func (s *WriteLimits) warn(m requestMemory, logger *slog.Logger) {
	for _, c := range []struct {
		flag, of    string
		said, holds int64
	}{
		{"in-flight-bytes-max", "", int64(s.inFlightBytesMax), m.inFlight},
		{"line-bytes-max", "", int64(s.lineBytesMax), m.lineBytes},
		{"body-bytes-max", ofWhole, int64(s.bodyBytesMax), m.wholeBytes},
		{"body-decoded-bytes-max", ofWhole, int64(s.bodyDecodedMax), m.wholeDecodedBytes},
	} {
		if c.holds < c.said {
			logger.Warn("--"+c.flag+" is more than there is memory for; less holds"+c.of, "said_bytes", c.said, "holds_bytes", c.holds)
		}
	}
}

// bytes returns the memory of one query, of all of them and of the cache.
func (s *QueryLimits) bytes(plan *memory.Plan) (ofOne, ofAll, ofCache int64) {
	ofAll = plan.Bound(memory.Queries, boundOrNone(s.queryMemoryAll))
	return min(boundOrNone(s.queryMemory), ofAll), ofAll, plan.Bound(memory.Cache, int64(s.queryCache))
}

// boundOrNone returns the bound of a flag; 0 means that there is none.
func boundOrNone(b settings.Bytes) int64 {
	if b == 0 {
		return memory.Unlimited
	}
	return int64(b)
}
