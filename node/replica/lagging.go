package replica

// laggingReads bounds what the leaders of all groups read from the log at a time for members that lag
// behind the entries that are kept. It waits in envelopes for the network: when a node comes
// back, each of a hundred groups would read megabytes in one Round. A group that finds no room is asked
// again by the next heartbeat's answer, or by that of the member. One message may be read at each tick
// whatever waits, as it may wait for another node, which stands.
type laggingReads struct {
	bytesMax int  // 0: no bound
	waiting  int  // bytes of envelopes that wait for other nodes
	bytes    int  // read since the last Round
	ticked   bool // since a message was read though there was no room
}

// lessIsNothing: no less than this is read at a time, as each message has its cost.
const lessIsNothing = 64 << 10

// room reports whether entries may be read now, and how many bytes of those wanted.
func (r *laggingReads) room(wanted int) (bytes int, is bool) {
	if r == nil || r.bytesMax == 0 || r.waiting+r.bytes == 0 {
		return wanted, true
	}
	left := r.bytesMax - r.waiting - r.bytes
	if left < min(wanted, lessIsNothing) {
		is, r.ticked = r.ticked, false
		return wanted, is
	}
	return min(wanted, left), true
}

func (r *laggingReads) add(bytes int) {
	if r != nil {
		r.bytes += bytes
	}
}

// Waiting returns how many bytes of envelopes wait for other nodes: see Config.LaggingBytesMax.
func (h *Host) Waiting(bytes int) { h.shared.lagging.waiting = bytes }
