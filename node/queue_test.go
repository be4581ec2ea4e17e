package node

import "testing"

// TestInboxIsBounded sends envelopes without a byte, which cost memory all the same.
func TestInboxIsBounded(t *testing.T) {
	q := newQueue(&MemoryBounds{InboxBytes: inboxBytesDefault})
	const most = inboxBytesDefault / envelopeOverhead
	for range most + 5 {
		q.receive("b", nil)
	}
	if len(q.mu.envelopes) != most || q.dropped.Load() != 5 {
		t.Fatalf("%d envelopes wait, %d at most; %d were dropped", len(q.mu.envelopes), most, q.dropped.Load())
	}
	var took taken
	q.take(&took)
	q.receive("b", nil)
	if len(took.envelopes) != most || len(q.mu.envelopes) != 1 {
		t.Fatalf("%d were taken, %d wait", len(took.envelopes), len(q.mu.envelopes))
	}
}
