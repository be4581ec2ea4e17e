package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// sender delivers batches one after the other over a stream, which it opens anew,
// elsewhere, after each failure. One goroutine uses it.
type sender struct {
	client   *Client
	window   *window
	endpoint *endpoint
	stream   grpc.BidiStreamingClient[tickmeshv1.WriteStreamRequest, tickmeshv1.WriteStreamResponse]
	cancel   context.CancelFunc // of the stream
	handles  *handles
	sequence uint64
}

// deliver sends a batch, again and again with one id, until it is written, fails in a
// way that stays, or WriteTimeout is over. Series that are refused for now are sent
// again in a batch of their own. It returns an error, or a *RefusedError for each
// series that was refused.
func (x *sender) deliver(ctx context.Context, b *batch) (refused []*RefusedError, lost int, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.client.options.WriteTimeout)
	defer cancel()
	delays := x.client.newDelays()
	for {
		again, errs, why, err := x.deliverOnce(ctx, b)
		refused = append(refused, errs...)
		if err != nil {
			return refused, b.points(), err
		}
		if again == nil {
			return refused, 0, nil
		}
		if err := delays.wait(ctx, why); err != nil {
			return refused, again.points(), err
		}
		b = again
	}
}

// deliverOnce delivers a batch under one id.
func (x *sender) deliverOnce(ctx context.Context, b *batch) (again *batch, refused []*RefusedError, why, err error) {
	if b.id, err = x.window.take(ctx); err != nil {
		return nil, nil, nil, err
	}
	defer x.window.give(b.id)
	delays := x.client.newDelays()
	for {
		result, of, err := x.attempt(ctx, b)
		if err == nil {
			again, refused, why = b.refusals(result, of)
			return again, refused, why, nil
		}
		x.close() // the server may lack definitions of this batch
		if cause := context.Cause(ctx); cause != nil {
			delays.failed(err)
			return nil, nil, nil, delays.ended(cause)
		}
		if !mayPass(err) {
			return nil, nil, nil, err
		}
		x.client.options.Logger.Debug("a batch is sent again", "counter", b.id.Counter, "points", b.points(), "error", err)
		if err := delays.wait(ctx, err); err != nil {
			return nil, nil, nil, err
		}
	}
}

// attempt sends a batch once and waits for its answer.
func (x *sender) attempt(ctx context.Context, b *batch) (result *tickmeshv1.WriteResult, of []uint32, err error) {
	timeout := x.client.options.AttemptTimeout
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := x.open(ctx, b); err != nil {
		return nil, nil, err
	}
	// The stream outlives the attempt, unless the attempt runs out of time.
	stop := context.AfterFunc(ctx, x.cancel)
	defer stop()
	m, of := x.handles.message(b)
	m.Level = wire.FromLevel(x.client.options.WriteLevel)
	x.sequence++
	request := &tickmeshv1.WriteStreamRequest{Sequence: x.sequence, Batch: m, TimeoutMs: uint32(timeout.Milliseconds())}
	// After a failed Send, Recv tells why.
	sendErr := x.stream.Send(request)
	answer, err := x.stream.Recv()
	switch {
	case err == nil && sendErr == nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
		err = errorOf(err)
	default:
		err = errorOf(sendErr)
	}
	if err == nil {
		result, err = resultOf(answer, x.sequence)
	}
	if err == nil && result.GetLevel() != m.GetLevel() {
		err = fmt.Errorf("%w: %s does not know the level %v; the batch is written by a majority", ErrVersion, x.endpoint.address, m.GetLevel())
	}
	x.endpoint.told(err)
	return result, of, err
}

func resultOf(answer *tickmeshv1.WriteStreamResponse, sequence uint64) (*tickmeshv1.WriteResult, error) {
	if answer.GetSequence() != sequence {
		return nil, fmt.Errorf("%w: an answer to batch %d of the stream instead of %d", ErrInternal, answer.GetSequence(), sequence)
	}
	if result := answer.GetResult(); result != nil {
		return result, nil
	}
	if m := answer.GetError(); m != nil {
		return nil, wire.ToError(m)
	}
	return nil, fmt.Errorf("%w: an answer of a kind that this client does not know", ErrInternal)
}

// open makes sure that there is a stream that can name the batch's series.
func (x *sender) open(ctx context.Context, b *batch) error {
	if x.stream != nil {
		info, err := x.endpoint.serverInfo(ctx, x.client.options.Name)
		if err == nil && x.handles.fit(b, int(info.GetHandlesMax())) {
			return nil
		}
		x.close()
	}
	e := x.client.pick()
	info, err := e.serverInfo(ctx, x.client.options.Name)
	if err != nil {
		e.told(err)
		return err
	}
	handles := newHandles()
	if !handles.fit(b, int(info.GetHandlesMax())) || b.bytes+messageBytes > int(info.GetMessageBytesMax()) {
		return fmt.Errorf("%w: a batch of %d series and about %d bytes is more than %s takes", ErrInvalid, len(b.series), b.bytes, e.address)
	}
	streamCtx, cancel := context.WithCancel(x.client.ctx)
	stop := context.AfterFunc(ctx, cancel) // opening may wait for a connection
	stream, err := tickmeshv1.NewWriteServiceClient(e.conn).WriteStream(streamCtx)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		err = errorOf(err)
		e.told(err)
		return err
	}
	x.endpoint, x.stream, x.cancel, x.handles, x.sequence = e, stream, cancel, handles, 0
	return nil
}

// close drops the stream.
func (x *sender) close() {
	if x.stream == nil {
		return
	}
	_ = x.stream.CloseSend()
	x.cancel()
	x.stream, x.cancel, x.handles = nil, nil, nil
}
