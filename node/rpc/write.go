package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

const (
	// answerBytes is what most answers take at most.
	answerBytes = 32
	// responseBytesMax is what one message has of answers that wait, but for a larger one.
	responseBytesMax = 256 << 10
	// requestFramesMax bounds the frames of one message: an empty one has 2 bytes, and
	// takes a hundred times as many here.
	requestFramesMax = 1024
	// answerBytesMax bounds the answer to one frame.
	answerBytesMax = transport.MessageBytesMax - responseBytesMax
)

// writeStream is one caller's stream of frames: one goroutine reads them, another one
// sends the answers. What is answered by the time it sends goes as one message.
type writeStream struct {
	server *Server
	stream grpc.BidiStreamingServer[nodev1.WriteRequest, nodev1.WriteResponse]
	slots  chan struct{}  // one for each frame that is not answered
	frames sync.WaitGroup // the same
	wake   chan struct{}  // has one element when a frame has ended
	closed chan struct{}  // all frames are answered, no more will come

	mu    sync.Mutex
	ended []*writeFrame // guarded by mu: to be answered
}

// writeRequest is a message whose frames are in work.
type writeRequest struct {
	message transport.Message
	left    atomic.Int32 // frames that are not answered, and one while it is read
	cancel  context.CancelFunc
}

// writeFrame is a frame in work.
type writeFrame struct {
	wire.ReceivedFrame
	stream  *writeStream
	request *writeRequest
	end     WriteEnd
}

// newFrame returns an empty frame, with memory for parts if one is spare.
func (s *Server) newFrame() *writeFrame {
	f, ok := s.spareFrames.Get().(*writeFrame)
	if !ok {
		return &writeFrame{}
	}
	parts := f.Frame.Parts
	clear(parts)
	*f = writeFrame{}
	f.Frame.Parts = parts[:0]
	return f
}

// done notes that the node is done with the frame.
func (f *writeFrame) done(end WriteEnd) {
	w := f.stream
	f.end = end
	w.mu.Lock()
	w.ended = append(w.ended, f)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it was said already
	}
}

// failed is the end of a frame that the node did not get.
type failed struct{ err error }

func (f failed) Outcomes() ([]wire.PartOutcome, error) { return nil, f.err }

// Write takes frames. While too many are in work, it does not read the next ones.
func (s *Server) Write(stream grpc.BidiStreamingServer[nodev1.WriteRequest, nodev1.WriteResponse]) error {
	if _, err := caller(stream.Context()); err != nil {
		return err
	}
	return s.serveWrites(stream)
}

func (s *Server) serveWrites(stream grpc.BidiStreamingServer[nodev1.WriteRequest, nodev1.WriteResponse]) error {
	w := &writeStream{
		server: s, stream: stream, slots: make(chan struct{}, s.options.WritesMax),
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	var sender sync.WaitGroup
	sender.Go(w.send)
	err := w.read()
	w.frames.Wait()
	close(w.closed)
	sender.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (w *writeStream) read() error {
	var reader wire.RequestReader
	for {
		request := &writeRequest{cancel: func() {}}
		if err := w.stream.RecvMsg(&request.message); err != nil {
			return err
		}
		if err := w.take(request, &reader); err != nil {
			return wire.Status(err)
		}
	}
}

// take hands the node the frames of a request. Errors are those of the stream.
func (w *writeStream) take(request *writeRequest, reader *wire.RequestReader) error {
	ctx := w.stream.Context()
	request.left.Store(1)
	defer w.release(request)
	var frames []*writeFrame
	timeoutMs := uint32(1)
	for reader.Reset(request.message.Bytes); ; {
		f := w.server.newFrame()
		f.stream, f.request = w, request
		if !reader.Next(&f.ReceivedFrame) {
			w.server.spareFrames.Put(f)
			break
		}
		if len(frames) == requestFramesMax {
			return fmt.Errorf("%w: a request of more than %d frames", wire.ErrInvalid, requestFramesMax)
		}
		if timeoutMs = max(timeoutMs, f.TimeoutMs); f.TimeoutMs == 0 {
			timeoutMs = ^uint32(0)
		}
		frames = append(frames, f)
	}
	if err := reader.Err(); err != nil {
		return err
	}
	timeout := min(w.server.options.WriteTimeoutMax, time.Duration(timeoutMs)*time.Millisecond)
	inWork, cancel := context.WithTimeout(ctx, timeout)
	request.cancel = cancel
	for _, f := range frames {
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		w.frames.Add(1)
		request.left.Add(1)
		if f.Err != nil {
			f.done(failed{f.Err})
			continue
		}
		w.server.node.Write(inWork, &f.Frame, f.done)
	}
	return nil
}

// release releases a request when nothing of it is in work.
func (w *writeStream) release(request *writeRequest) {
	if request.left.Add(-1) > 0 {
		return
	}
	request.cancel()
	request.message.Free()
}

// send answers frames until the stream is closed. An answer that cannot be sent has no
// reader any more.
func (w *writeStream) send() {
	var ended []*writeFrame
	for {
		w.mu.Lock()
		ended, w.ended = w.ended, ended[:0]
		w.mu.Unlock()
		if len(ended) == 0 {
			select {
			case <-w.wake:
				continue
			case <-w.closed:
				return
			}
		}
		for left := ended; len(left) > 0; {
			n, err := w.answer(left)
			if err != nil {
				w.server.options.Logger.Debug("answers to frames were not sent", "error", err)
			}
			left = left[n:]
		}
		clear(ended)
	}
}

// answer sends one message with the answers to the first frames, and ends them. It
// returns their number.
func (w *writeStream) answer(ended []*writeFrame) (n int, err error) {
	buffer := w.server.buffers.Get(min(answerBytes*len(ended), responseBytesMax))
	b := (*buffer)[:0]
	for ; n < len(ended) && len(b) < responseBytesMax/2; n++ {
		b = ended[n].appendAnswer(b)
	}
	*buffer = b
	err = w.stream.SendMsg(&transport.Message{Slice: mem.BufferSlice{mem.NewBuffer(buffer, w.server.buffers)}})
	for _, f := range ended[:n] {
		w.release(f.request)
		<-w.slots
		w.frames.Done()
		w.server.spareFrames.Put(f)
	}
	return n, err
}

// appendAnswer appends what became of the frame to a message.
func (f *writeFrame) appendAnswer(b []byte) []byte {
	outcomes, err := f.end.Outcomes()
	if err == nil && len(outcomes) != len(f.Frame.Parts) {
		err = fmt.Errorf("%w: %d outcomes for %d parts", wire.ErrInternal, len(outcomes), len(f.Frame.Parts))
	}
	answer, encodeErr := wire.AppendResult(b, f.Sequence, outcomes, err)
	if encodeErr == nil && len(answer)-len(b) <= answerBytesMax {
		return answer
	}
	if encodeErr == nil {
		encodeErr = fmt.Errorf("%w: the answer to the frame is too large: %d bytes", wire.ErrInternal, len(answer)-len(b))
	}
	if answer, err = wire.AppendResult(b, f.Sequence, nil, encodeErr); err != nil {
		return b // not reached: an error is short text
	}
	return answer
}
