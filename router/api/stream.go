package api

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// writeStream is one WriteStream call: the handler reads in order and encodes, and
// up to StreamWritesMax goroutines write and answer.
type writeStream struct {
	s       *Server
	stream  writeStreamServer
	session *session
	slots   chan struct{} // one for each batch being written
	writing sync.WaitGroup

	mu struct {
		sync.Mutex // held while an answer is sent
	}
}

type writeStreamServer = grpc.BidiStreamingServer[tickmeshv1.WriteStreamRequest, tickmeshv1.WriteStreamResponse]

// WriteStream writes batches until the client ends the stream.
func (w *writeService) WriteStream(stream writeStreamServer) error {
	ws := &writeStream{
		s: w.s, stream: stream, session: newSession(stream.Context(), w.s),
		slots: make(chan struct{}, w.s.options.Limits.StreamWritesMax),
	}
	defer ws.session.close()
	err := ws.run()
	ws.writing.Wait()
	return err
}

// received is what a Recv gave.
type received struct {
	request *tickmeshv1.WriteStreamRequest
	charge  int64 // of the call's memory
	err     error
}

func (ws *writeStream) run() error {
	ctx := ws.stream.Context()
	requests := make(chan received)
	go ws.receive(ctx, requests)
	for {
		select {
		case <-ws.s.stopping:
			return statusOf(errStopping)
		case <-ctx.Done():
			return statusOf(ctx.Err())
		case r := <-requests:
			if errors.Is(r.err, io.EOF) {
				return nil
			}
			if r.err != nil {
				return r.err
			}
			if err := ws.take(ctx, r); err != nil {
				return err
			}
		}
	}
}

// receive reads ahead by one request. It ends with the call: a Recv does when the
// handler has returned.
func (ws *writeStream) receive(ctx context.Context, requests chan<- received) {
	for {
		request, err := ws.stream.Recv()
		select {
		case requests <- received{request, callOf(ctx).takeCharge(), err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// take starts to write a batch, waiting while too many others are being written.
func (ws *writeStream) take(ctx context.Context, r received) error {
	m, c := r.request, callOf(ctx)
	select {
	case ws.slots <- struct{}{}:
	case <-ctx.Done():
		return statusOf(ctx.Err())
	}
	timeout := ws.s.options.Limits.WriteTimeout
	if ms := m.GetTimeoutMs(); ms > 0 {
		timeout = min(timeout, time.Duration(ms)*time.Millisecond)
	}
	sequence := m.GetSequence()
	p, failed := ws.session.prepare(m.GetBatch())
	if failed != nil {
		defer func() { c.release(r.charge); <-ws.slots }()
		return ws.answer(&tickmeshv1.WriteStreamResponse{Sequence: sequence, Outcome: &tickmeshv1.WriteStreamResponse_Error{Error: failed}})
	}
	ws.writing.Go(func() {
		defer func() { c.release(r.charge); <-ws.slots }()
		answer := &tickmeshv1.WriteStreamResponse{Sequence: sequence}
		if result, failed := p.write(ctx, timeout); failed != nil {
			answer.Outcome = &tickmeshv1.WriteStreamResponse_Error{Error: failed}
		} else {
			answer.Outcome = &tickmeshv1.WriteStreamResponse_Result{Result: result}
		}
		_ = ws.answer(answer) // a client that has gone ends the call
	})
	return nil
}

func (ws *writeStream) answer(m *tickmeshv1.WriteStreamResponse) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.stream.Send(m)
}
