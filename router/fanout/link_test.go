package fanout

import (
	"errors"
	"log/slog"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
)

// resting returns a link that has no stream, and a maker of attempts on it: each of a call
// of its own, with one part of so many bytes.
func resting(c *Cluster, bytesMax int64) (*link, func(batchBytes int) *attempt) {
	l := &link{
		node: &node{id: "a"}, bytesMax: bytesMax, buffers: &c.buffers, metrics: c.metrics,
		wake: make(chan struct{}, 1), logger: slog.New(slog.DiscardHandler),
	}
	l.mu.flying = map[uint64]*attempt{}
	return l, func(batchBytes int) *attempt {
		frame := &series.Frame{Parts: []series.Part{{Shard: 3, Batch: make([]byte, batchBytes)}}}
		w := &call{
			cluster: c, frame: frame, id: series.BatchID{Session: 1, Counter: c.sequence.Add(1)},
			wake: make(chan struct{}, 1), parts: make([]part, 1), left: 1,
		}
		a := &attempt{call: w, node: l.node, bytes: wire.FrameBytesMax}
		a.parts, a.shards = []int{0}, []uint16{3}
		a.bytes += int64(batchBytes + wire.PartBytesMax)
		a.sequence = w.id.Counter
		w.parts[0].current = a
		w.flying.Add(1)
		return a
	}
}

func restingCluster(t interface{ Cleanup(func()) }) *Cluster {
	c := New(Options{Limits: Limits{ResolverBytesMax: 1}})
	t.Cleanup(c.Close)
	return c
}

// sequences returns those of the frames in the next message; nil: there is nothing to send.
func sequences(t interface{ Fatalf(string, ...any) }, l *link) (list []uint64, bytes int) {
	for {
		attempts := l.next(nil)
		if len(attempts) == 0 {
			return nil, 0
		}
		m := l.request(attempts, new(wire.Frame))
		if m == nil {
			continue
		}
		b := m.Slice.Materialize()
		var r wire.RequestReader
		var f wire.ReceivedFrame
		for r.Reset(b); r.Next(&f); {
			if f.Err != nil {
				t.Fatalf("frame %d: %v", f.Sequence, f.Err)
			}
			list = append(list, f.Sequence)
		}
		if r.Err() != nil {
			t.Fatalf("%v", r.Err())
		}
		return list, len(b)
	}
}

// Frames of all calls go in the order in which they came, so that none waits for later
// ones; messages and the queue keep their bounds; frames of calls that have ended are
// left out, whether they were queued first, last or in between, and count no more.
func TestMessagesOfManyCalls(t *testing.T) {
	c := restingCluster(t)
	rapid.Check(t, func(t *rapid.T) {
		const bytesMax = 2 << 20
		l, newAttempt := resting(c, bytesMax)
		var want []uint64 // of calls that have not ended, in the order of the queue
		held, largest := int64(0), 0
		for range rapid.IntRange(1, 150).Draw(t, "frames") {
			size := rapid.SampledFrom([]int{1, 100, 10_000, messageBytesMax / 2, messageBytesMax * 2}).Draw(t, "bytes")
			a := newAttempt(size)
			fits := held == 0 || held+a.bytes <= bytesMax
			if err := l.submit(a); (err == nil) != fits || err != nil && !errors.Is(err, series.ErrOverloaded) {
				t.Fatalf("%d bytes after %d: %v", a.bytes, held, err)
			}
			if !fits {
				continue
			}
			held += a.bytes
			largest = max(largest, int(a.bytes))
			if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
				a.call.end()
			} else {
				want = append(want, a.sequence)
			}
		}
		var got []uint64
		for {
			list, bytes := sequences(t, l)
			if list == nil {
				break
			}
			if len(list) > messageFramesMax || len(list) > 1 && bytes > messageBytesMax {
				t.Fatalf("a message of %d frames and %d bytes", len(list), bytes)
			}
			got = append(got, list...)
		}
		if len(got) != len(want) {
			t.Fatalf("%d frames were sent, expected %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("frame %d was sent, expected %d", got[i], want[i])
			}
			if l.landed(got[i]) == nil {
				t.Fatalf("frame %d is not waited for", got[i])
			}
		}
		if l.waiting() != 0 || len(l.mu.flying) != 0 {
			t.Fatalf("%d bytes of %d frames are left", l.waiting(), len(l.mu.flying))
		}
	})
}

// An answer to many frames tells each call of its own frame, and wakes it once there is
// nothing to wait for; an answer that cannot be read ends the stream, and what it did not
// answer goes back to its calls.
func TestAnswersFanBack(t *testing.T) {
	c := restingCluster(t)
	l, newAttempt := resting(c, 1<<20)
	var attempts []*attempt
	for range 5 {
		a := newAttempt(10)
		if err := l.submit(a); err != nil {
			t.Fatal(err)
		}
		attempts = append(attempts, a)
	}
	if list, _ := sequences(t, l); len(list) != 5 {
		t.Fatalf("%d frames in a message", len(list))
	}
	written, moved, failed, twice, lost := attempts[0], attempts[1], attempts[2], attempts[3], attempts[4]
	twice.call.flying.Add(1) // it waits for another node, too
	var response []byte
	for _, answer := range []struct {
		sequence uint64
		outcome  wire.PartOutcome
		err      error
	}{
		{written.sequence, wire.PartOutcome{Copies: 2}, nil},
		{1 << 60, wire.PartOutcome{Copies: 1}, nil}, // of nobody
		{moved.sequence, wire.PartOutcome{Err: &wire.NotLeaderError{Shard: 3, Leader: "b"}}, nil},
		{failed.sequence, wire.PartOutcome{}, series.ErrReadOnly},
		{twice.sequence, wire.PartOutcome{Copies: 3}, nil},
	} {
		var err error
		if response, err = wire.AppendResult(response, answer.sequence, []wire.PartOutcome{answer.outcome}, answer.err); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.answer(append(response, 0xff)); !errors.Is(err, wire.ErrInvalid) {
		t.Fatalf("an answer that is no message: %v", err)
	}
	l.lose(errClosed)
	var notLeader *wire.NotLeaderError
	switch {
	case written.err != nil || written.copies != 2 || len(written.outcomes) > 0:
		t.Errorf("written: %+v", written)
	case moved.err != nil || !errors.As(moved.outcomes[0].Err, &notLeader) || *notLeader != (wire.NotLeaderError{Shard: 3, Leader: "b"}):
		t.Errorf("moved: %+v", moved)
	case !errors.Is(failed.err, series.ErrReadOnly):
		t.Errorf("failed: %+v", failed)
	case !errors.Is(lost.err, series.ErrUnavailable):
		t.Errorf("lost: %+v", lost)
	}
	for i, a := range attempts {
		if woken := len(a.call.wake) == 1; woken != (a != twice) || len(a.call.delivered()) != 1 {
			t.Errorf("call %d: woken: %t", i, woken)
		}
	}
	if l.waiting() != 0 {
		t.Errorf("%d bytes are left", l.waiting())
	}
}
