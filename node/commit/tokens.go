package commit

// inflight is an entry that was proposed here.
type inflight struct {
	token  uint64
	shard  uint16
	shares []Share
}

// tokens are the entries that were proposed here and have no outcome yet. An entry's
// token is its place, so that it is found without hashing; a place is given again
// when its entry was taken out.
type tokens struct {
	slots []*inflight // by token-1
	empty []uint64    // tokens without an entry
	spare []*inflight
}

// make keeps a copy of shares under a new token.
func (t *tokens) make(shard uint16, shares []Share) *inflight {
	var e *inflight
	if n := len(t.spare); n > 0 {
		e, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		e = &inflight{}
	}
	if n := len(t.empty); n > 0 {
		e.token, t.empty = t.empty[n-1], t.empty[:n-1]
	} else {
		t.slots = append(t.slots, nil)
		e.token = uint64(len(t.slots))
	}
	e.shard, e.shares = shard, append(e.shares[:0], shares...)
	t.slots[e.token-1] = e
	return e
}

// take returns the entry of a token, which is free from now on.
func (t *tokens) take(token uint64) *inflight {
	e := t.slots[token-1]
	t.slots[token-1] = nil
	t.empty = append(t.empty, token)
	return e
}

// release makes entries that were taken free to be used again.
func (t *tokens) release(entries []*inflight) {
	const most = 1024
	for _, e := range entries {
		clear(e.shares)
		e.shares = e.shares[:0]
		if len(t.spare) < most {
			t.spare = append(t.spare, e)
		}
	}
}
