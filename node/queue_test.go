package node

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

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

// The loop waits for as many writes as are expected, and for nothing else that comes.
func TestGatherEndsWithWhatItWaitsFor(t *testing.T) {
	const never = time.Hour
	write := func(q *queue) {
		w := commit.NewWrite(series.BatchID{}, 1)
		w.Add(entry.Samples, 0, []byte("batch"))
		if err := q.enqueue(context.Background(), w); err != nil {
			t.Error(err)
		}
	}
	for name, come := range map[string]func(q *queue){
		"writes":    func(q *queue) { write(q); write(q); write(q) },
		"a read":    func(q *queue) { _ = q.read([]commit.Read{{}}) },
		"envelope":  func(q *queue) { q.receive("other", []byte("envelope")) },
		"a command": func(q *queue) { go func() { _ = q.do(func() {}) }() },
		"a peer":    func(q *queue) { q.peer("other", true) },
		"the end":   func(q *queue) { q.close() },
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(&MemoryBounds{InboxBytes: inboxBytesDefault, QueueBytes: queueBytesDefault})
			write(q)
			ended := make(chan struct{})
			go func() {
				q.gather(4, never)
				close(ended)
			}()
			for gathers := 0; gathers == 0; runtime.Gosched() {
				q.mu.Lock()
				gathers = q.mu.gathers
				q.mu.Unlock()
			}
			come(q)
			<-ended
			var taken taken
			q.take(&taken)
			for _, c := range taken.commands {
				c.done <- nil
			}
		})
	}
	q := newQueue(&MemoryBounds{InboxBytes: inboxBytesDefault, QueueBytes: queueBytesDefault})
	q.gather(1, timerMin) // nobody comes
	write(q)
	q.gather(1, never)
}
