package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// writeStream is one caller's stream of frames.
type writeStream struct {
	server *Server
	stream grpc.BidiStreamingServer[nodev1.WriteRequest, nodev1.WriteResponse]
	slots  chan struct{} // one for each frame in work
	frames sync.WaitGroup
	send   sync.Mutex // held while an answer is sent
}

// Write takes frames. While too many are in work, it does not read the next one.
func (s *Server) Write(stream grpc.BidiStreamingServer[nodev1.WriteRequest, nodev1.WriteResponse]) error {
	if _, err := caller(stream.Context()); err != nil {
		return err
	}
	w := &writeStream{server: s, stream: stream, slots: make(chan struct{}, s.options.WritesMax)}
	err := w.read()
	w.frames.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (w *writeStream) read() error {
	ctx := w.stream.Context()
	for {
		request, err := w.stream.Recv()
		if err != nil {
			return err
		}
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return wire.Status(ctx.Err())
		}
		weight := min(int64(proto.Size(request)), w.server.options.WriteBytesMax)
		if err := w.server.writeBytes.Acquire(ctx, weight); err != nil {
			return wire.Status(err)
		}
		w.frames.Go(func() {
			defer func() {
				w.server.writeBytes.Release(weight)
				<-w.slots
			}()
			w.write(request)
		})
	}
}

// write writes one frame and answers it. An answer that cannot be sent has no
// reader any more.
func (w *writeStream) write(request *nodev1.WriteRequest) {
	response := &nodev1.WriteResponse{Sequence: request.GetSequence()}
	outcomes, err := w.server.write(w.stream.Context(), request)
	if err != nil {
		response.Error = wire.FromError(err)
	} else {
		response.Results = wire.FromPartOutcomes(outcomes)
	}
	w.send.Lock()
	defer w.send.Unlock()
	err = w.stream.Send(response)
	if status.Code(err) == codes.ResourceExhausted { // larger than a message may be
		tooLarge := wire.FromError(fmt.Errorf("%w: the answer to the frame is too large: %w", wire.ErrInternal, err))
		err = w.stream.Send(&nodev1.WriteResponse{Sequence: request.GetSequence(), Error: tooLarge})
	}
	if err != nil {
		w.server.options.Logger.Debug("an answer to a frame was not sent", "error", err)
	}
}

func (s *Server) write(ctx context.Context, request *nodev1.WriteRequest) ([]wire.PartOutcome, error) {
	var frame series.Frame
	if err := wire.ToFrame(&frame, request); err != nil {
		return nil, err
	}
	timeout := s.options.WriteTimeoutMax
	if ms := request.GetTimeoutMs(); ms > 0 {
		timeout = min(timeout, time.Duration(ms)*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcomes, err := s.node.Write(ctx, &frame)
	if err == nil && len(outcomes) != len(frame.Parts) {
		return nil, fmt.Errorf("%w: %d outcomes for %d parts", wire.ErrInternal, len(outcomes), len(frame.Parts))
	}
	return outcomes, err
}
