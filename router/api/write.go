package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// writeService is the WriteService.
type writeService struct {
	tickmeshv1.UnimplementedWriteServiceServer
	s *Server
}

// Write writes one batch.
func (w *writeService) Write(ctx context.Context, m *tickmeshv1.WriteRequest) (*tickmeshv1.WriteResponse, error) {
	x := newSession(ctx, w.s)
	defer x.close()
	p, failed := x.prepare(m.GetBatch())
	if failed != nil {
		return nil, wire.Status(wire.ToError(failed))
	}
	result, failed := p.write(ctx, w.s.options.Limits.WriteTimeout)
	if failed != nil {
		return nil, wire.Status(wire.ToError(failed))
	}
	return &tickmeshv1.WriteResponse{Result: result}, nil
}

// pending is a batch that is checked, encoded and not yet written.
type pending struct {
	s     *Server
	batch *tickmeshv1.Batch
	out   *outgoing
	// memory is that of the encoded batch; its message is charged to the call.
	memory memory
}

// sampleBytes is what a sample takes when it is encoded.
const sampleBytes = 20

// prepare takes a batch's definitions in and encodes its samples.
func (x *session) prepare(b *tickmeshv1.Batch) (*pending, *tickmeshv1.Error) {
	x.s.options.Processors.Small()
	definedErr := x.define(b.GetDefinitions()) // they hold also when the batch fails
	if definedErr != nil {
		return nil, x.s.metrics.failed(messageOf(definedErr))
	}
	samples := len(b.GetHandles())
	p := &pending{s: x.s, batch: b, memory: x.s.writes(x.ctx)}
	if !p.memory.take(sampleBytes*int64(samples) + namedSeriesBytes*int64(min(samples, len(x.handles)))) {
		return nil, x.s.metrics.failed(messageOf(errMemory))
	}
	p.out = x.s.frames.Get().(*outgoing)
	if err := x.encode(b, p.out); err != nil {
		p.release()
		return nil, x.s.metrics.failed(messageOf(err))
	}
	return p, nil
}

// release frees what a batch takes.
func (p *pending) release() {
	p.memory.close()
	if !p.out.isLarge() {
		p.s.frames.Put(p.out)
	}
}

// write writes the batch and releases it.
func (p *pending) write(ctx context.Context, timeout time.Duration) (*tickmeshv1.WriteResult, *tickmeshv1.Error) {
	defer p.release()
	frame, result := p.out.encoder.Frame(), &tickmeshv1.WriteResult{}
	for _, w := range p.out.wrong {
		result.Refused = append(result.Refused, &tickmeshv1.RefusedSeries{Handle: w.handle, Error: messageOf(w.err)})
	}
	if frame.Points == 0 {
		p.s.metrics.written(0, len(result.GetRefused()))
		result.Level = p.batch.GetLevel()
		return result, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcome, err := p.s.options.Writer.Write(ctx, frame)
	if errors.Is(err, series.ErrEra) {
		p.out.encodeKeys(p.batch) // the same frame in other words, with the same id
		outcome, err = p.s.options.Writer.Write(ctx, frame)
	}
	if err != nil {
		p.out.failed()
		return nil, p.s.metrics.failed(writeMessageOf(ctx, err))
	}
	p.out.wrote()
	result.Copies, result.Level = uint32(max(0, outcome.Copies)), p.batch.GetLevel()
	for i := range outcome.Refused {
		r := &outcome.Refused[i]
		number, ok := p.out.refused(r)
		if !ok {
			return nil, p.s.metrics.failed(messageOf(fmt.Errorf("%w: a refusal of definition %d of part %d, which is none: %w",
				wire.ErrInternal, r.Definition, r.Part, r.Err)))
		}
		result.Refused = append(result.Refused, &tickmeshv1.RefusedSeries{Handle: number, Error: messageOf(r.Err)})
	}
	p.s.metrics.written(frame.Points, len(result.GetRefused()))
	return result, nil
}
