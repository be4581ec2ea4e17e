package mqtt

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/limitedlog"
	"github.com/tickmesh/tickmesh/router/ingest"
)

// Writer writes samples as clients' samples are written.
type Writer interface {
	// WriteMQTT writes a WriteRequest of remote write 1.0. The same twice does no harm. Errors: ingest.ErrRefused where
	// another try is in vain; all others may pass.
	WriteMQTT(ctx context.Context, database string, request []byte) error
}

// Bounds of a batch.
const (
	batchMessagesMax = 1000
	batchBytesMax    = 1 << 20 // of payloads
	requestBytesMax  = 1 << 20 // of one write, unless one message becomes more
	messageBytesMax  = 4 << 20 // that one message may become
)

// retryWait is the time between two tries of a write.
func retryWait() backoff.Exponential {
	return backoff.Exponential{Min: 100 * time.Millisecond, Max: 5 * time.Second}
}

// message is what has come.
type message struct {
	topic    string
	payload  []byte
	retained bool
	received time.Time
	held     int64  // bytes of the lease
	ack      func() // nil: none is expected
}

// writer writes what the messages of one connection hold, in batches, and acknowledges them.
type writer struct {
	connection *connection
	to         Writer
	counts     *counts
	done       func(*message) // returns what a message holds
	logger     *slog.Logger
	refusals   *limitedlog.Log
	retries    *limitedlog.Log

	encoder encoder
}

// run works until the queue is closed and empty, or ctx ends, when what waits stays unacknowledged.
func (w *writer) run(ctx context.Context, queue <-chan *message) {
	for {
		batch := w.take(ctx, queue)
		if len(batch) == 0 {
			return
		}
		w.counts.oldestMs.Store(batch[0].received.UnixMilli())
		if !w.place(ctx, batch) {
			return
		}
		w.counts.oldestMs.Store(0)
	}
}

// take waits for a message and returns it with those that wait behind it; none: it is over.
func (w *writer) take(ctx context.Context, queue <-chan *message) (batch []*message) {
	bytes := 0
	add := func(m *message, open bool) bool {
		if !open {
			return false
		}
		batch = append(batch, m)
		bytes += len(m.payload)
		return len(batch) < batchMessagesMax && bytes < batchBytesMax
	}
	select {
	case <-ctx.Done():
		return nil
	case m, open := <-queue:
		if !add(m, open) {
			return batch
		}
	}
	for {
		select {
		case m, open := <-queue:
			if !add(m, open) {
				return batch
			}
		default:
			return batch
		}
	}
}

// place writes a batch and acknowledges it. It reports whether it did, before ctx has ended.
func (w *writer) place(ctx context.Context, batch []*message) bool {
	requests := map[string]*request{}
	for _, m := range batch {
		if !w.gather(ctx, requests, m) {
			return false
		}
	}
	for _, r := range requests {
		if !w.write(ctx, r) {
			return false
		}
	}
	for _, m := range batch {
		if m.ack != nil {
			m.ack()
		}
		w.done(m)
	}
	return true
}

// gather adds the samples of a message to the request of its database, and writes that where it is long enough. It
// reports whether to go on.
func (w *writer) gather(ctx context.Context, requests map[string]*request, m *message) bool {
	s := w.connection.find(m.topic)
	if s != nil && m.retained && !s.retained {
		w.counts.retained.Add(1)
		return true
	}
	samples, err := w.decode(s, m)
	if err != nil {
		w.refuse(m.topic, reasonOf(err), err.Error())
		return true
	}
	w.counts.taken.Add(1)
	r := requests[s.database]
	if r == nil {
		r = &request{database: s.database}
		requests[s.database] = r
	}
	for i := range samples {
		w.encoder.add(r, m.topic, &samples[i])
	}
	if len(r.body) < requestBytesMax {
		return true
	}
	delete(requests, s.database)
	return w.write(ctx, r)
}

func (w *writer) decode(s *subscription, m *message) ([]sample, error) {
	if s == nil {
		return nil, refuse(refusedTopic, "no subscription matches the topic: the broker remembers one of an earlier file for this client; it forgets it with session-expiry: 0s for one start, or another client-id")
	}
	samples, err := s.decode(m.topic, m.payload, m.received.UnixMilli())
	if err == nil && bytesOf(samples) > messageBytesMax {
		err = refuse(refusedSize, "the message becomes more than %d bytes: publish fewer numbers at once, under shorter names", messageBytesMax)
	}
	return samples, err
}

// refuse counts and logs a message of which nothing is written. It is acknowledged, or it would come for ever.
func (w *writer) refuse(topic string, r reason, text string) {
	w.counts.refused[r].Add(1)
	w.refusals.Warn("MQTT: a message was refused", "connection", w.connection.name, "topic", cut(topic), "reason", reasonNames[r], "problem", text)
}

// write writes a request, again and again until it is written, refused, or ctx ends. It reports whether it is done with.
func (w *writer) write(ctx context.Context, r *request) bool {
	for failures := 1; ; failures++ {
		err := w.to.WriteMQTT(ctx, r.database, r.body)
		if err == nil {
			w.counts.written.Add(int64(len(r.topics)))
			return true
		}
		if errors.Is(err, ingest.ErrRefused) {
			w.refuseWrite(r, err)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		w.counts.retries.Add(1)
		w.retries.Warn("MQTT: a write was not taken; its messages are not acknowledged, and it is tried again", "connection", w.connection.name, "database", access.Display(r.database), "tries", failures, "error", err)
		timer := time.NewTimer(retryWait().Delay(failures))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// refuseWrite counts and logs samples that storage, or the rules of their database, refused.
func (w *writer) refuseWrite(r *request, err error) {
	refused, topic := len(r.topics), r.topics[0]
	if partial := (*ingest.RefusedError)(nil); errors.As(err, &partial) {
		refused = min(partial.Refused, len(r.topics))
		if at := partial.First - 1; at >= 0 && at < len(r.topics) {
			topic = r.topics[at]
		}
	}
	w.counts.written.Add(int64(len(r.topics) - refused))
	w.counts.refusedSamples.Add(int64(refused))
	w.refusals.Warn("MQTT: samples were refused", "connection", w.connection.name, "topic", cut(topic), "database", access.Display(r.database), "samples", refused, "problem", err)
}
