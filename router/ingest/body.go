package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/snappy"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// body reads the bodies of requests, one at a time, into buffers that are used
// again. What the buffers take is charged to the server's budget.
//
// A body is read as a whole or, where its manner allows, in chunks while it arrives: then it may
// be much larger than the memory for it.
type body struct {
	lease      budget.Lease // of its request
	base       context.Context
	limits     *Limits
	processors *processor.Pool
	work       *processor.Work // begun when the body turned out to be large; nil: not yet
	owner      budget.Owner

	sent    arriving
	raw     []byte // as sent
	decoded []byte
	gzip    *gzip.Reader
	source  bytes.Reader
	// held is the buffer of the content, input what fills it, and forgotten the bytes of content that
	// were there before.
	held      *[]byte
	input     io.Reader
	forgotten int
}

const (
	bodyBytesFirst = 16 << 10 // of a buffer
	bodyBytesKept  = 1 << 20  // larger buffers are given to the collector
	// bodyChunkBytes is the least size of a chunk; it has at least two of the longest lines, but for those of an import.
	bodyChunkBytes = 512 << 10
	// parserSlack is the room behind a body that lets the parser read whole words.
	parserSlack = 16
)

// manner describes how a body is read.
type manner struct {
	encoding string // of bodies that do not name one
	chunks   bool   // the content may be taken chunk by chunk
}

// begin reads the body of a request, decompressed, to its end, or, where its manner allows, the
// first chunk of one that is longer: then more follows. The content is valid until the next call.
// Errors are one of the kinds above, or errBudget.
func (b *body) begin(ctx context.Context, request *fasthttp.RequestCtx, m manner) (content []byte, more bool, err error) {
	limit, wanted := b.limits.sent(m), b.chunkBytes()
	if !m.chunks {
		wanted = limit.bytesMax + 1
	}
	if err := b.readSent(ctx, request, limit, wanted); err != nil {
		return nil, false, err
	}
	encoding := bytes.TrimSpace(fieldOf(request, fasthttp.HeaderContentEncoding))
	if len(encoding) == 0 {
		encoding = []byte(m.encoding)
	}
	switch {
	case len(encoding) == 0, bytes.EqualFold(encoding, []byte("identity")):
		b.held, b.input = &b.raw, &b.sent
		return b.raw, !b.sent.ended, nil
	case bytes.EqualFold(encoding, []byte("snappy")):
		content, err = b.decodeSnappy(ctx)
		return content, false, err
	}
	if err := b.decompress(encoding); err != nil {
		return nil, false, err
	}
	if err := b.charge(ctx, cap(b.decoded)); err != nil {
		return nil, false, err
	}
	if b.decoded, err = b.expect(ctx, b.decoded[:0], 2*len(b.raw)); err != nil {
		return nil, false, err
	}
	b.held = &b.decoded
	if m.chunks {
		return b.next(ctx, 0)
	}
	content, err = b.whole(ctx)
	return content, false, err
}

func (b *body) chunkBytes() int { return max(bodyChunkBytes, 2*b.limits.Line.LineBytesMax) }

// next forgets so many bytes of the content and returns the rest of it with what follows: at least as much again, as a line
// may be longer than a chunk is by itself.
func (b *body) next(ctx context.Context, consumed int) (content []byte, more bool, err error) {
	b.forgotten += consumed
	held := *b.held
	held = held[:copy(held, held[consumed:])]
	ended, err := false, error(nil)
	*b.held, ended, err = b.fill(ctx, held, b.input, max(b.chunkBytes(), 2*len(held)))
	if most := b.limits.BodyBytesDecodedMax; err == nil && b.held == &b.decoded && b.forgotten+len(b.decoded) > most {
		err = tooLarge(most, flagDecodedBytes)
	}
	if err == nil && ended {
		err = b.drain()
	}
	return *b.held, !ended, err
}

// whole reads on to the end of a body of which nothing is forgotten.
func (b *body) whole(ctx context.Context) ([]byte, error) {
	limit := b.limits.wholeSent()
	if b.held == &b.decoded {
		limit = b.limits.wholeDecoded()
	}
	ended, err := false, error(nil)
	*b.held, ended, err = b.fill(ctx, *b.held, b.input, limit.bytesMax+1)
	switch {
	case err != nil:
		return nil, err
	case !ended || len(*b.held) > limit.bytesMax:
		return nil, tooLarge(limit.bytesMax, limit.set)
	}
	if err := b.drain(); err != nil {
		return nil, err
	}
	if b.held == &b.decoded {
		b.dropRaw()
	}
	return *b.held, nil
}

// drain reads what a decompressor has left of what was sent, so that the connection can go on.
func (b *body) drain() error {
	for !b.sent.ended {
		if _, err := b.sent.Read(b.raw[:cap(b.raw)]); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// dropRaw releases much memory of what was sent once it is decompressed.
func (b *body) dropRaw() {
	if cap(b.raw) > bodyBytesKept {
		b.lease.Release(int64(cap(b.raw)))
		b.raw = nil
	}
}

// releaseChunk releases what a chunk, which is written, has beside the buffers: bytes, and a slot of processors.
func (b *body) releaseChunk() {
	b.work.Idle()
	b.lease.Release(b.lease.Held() - int64(cap(b.raw)+cap(b.decoded)))
}

// readSent reads what is sent until it ends or there are so many bytes wanted.
func (b *body) readSent(ctx context.Context, request *fasthttp.RequestCtx, limit sentLimit, wanted int) error {
	b.sent, b.forgotten, b.raw = arriving{limit: limit}, 0, b.raw[:0]
	if err := b.charge(ctx, cap(b.raw)); err != nil {
		return err
	}
	stream := request.RequestBodyStream()
	if stream == nil {
		b.sent.ended = true
		return nil
	}
	announced := max(0, request.Request.Header.ContentLength())
	if announced > limit.bytesMax {
		return tooLarge(limit.bytesMax, limit.set)
	}
	b.sent.stream = stream
	b.sent.conn, _ = request.Conn().(*conn)
	var err error
	if b.raw, err = b.expect(ctx, b.raw, announced); err != nil {
		return err
	}
	b.raw, _, err = b.fill(ctx, b.raw, &b.sent, wanted)
	return err
}

// expect makes room in an empty buffer for the first of so many bytes.
func (b *body) expect(ctx context.Context, buffer []byte, bytes int) ([]byte, error) {
	first := min(bytes, 4*bodyBytesFirst) + parserSlack
	if first <= cap(buffer) {
		return buffer, nil
	}
	return b.grow(ctx, buffer, max(first, bodyBytesFirst))
}

// decompress makes a decompressor the input.
func (b *body) decompress(encoding []byte) error {
	var source io.Reader
	if b.source.Reset(b.raw); b.sent.ended {
		source = &b.source // decompressors are fast with it
	} else {
		source = (*compressed)(b)
	}
	switch {
	case bytes.EqualFold(encoding, []byte("gzip")), bytes.EqualFold(encoding, []byte("x-gzip")):
		if b.gzip == nil {
			b.gzip = new(gzip.Reader)
		}
		if err := b.gzip.Reset(source); err != nil {
			return corrupt(err)
		}
		b.input = &expanding{b.gzip, b, 0}
	case bytes.EqualFold(encoding, []byte("deflate")):
		z, err := zlib.NewReader(source)
		if err != nil {
			return corrupt(err)
		}
		b.input = &expanding{z, b, 0} // it has nothing to close
	default:
		return fmt.Errorf("%w: %q", refusal.ErrBodyEncoding, encoding)
	}
	return nil
}

// corrupt words an error of a decompressor, or of the body as it arrives.
func corrupt(err error) error {
	if errors.Is(err, refusal.ErrBodyRead) || errors.Is(err, refusal.ErrBodyTooLarge) {
		return err
	}
	return fmt.Errorf("%w: %w", refusal.ErrBodyCorrupt, err)
}

// expandedBytesLight is what a body may become without being heavy work: what is larger was
// cheap to send, and is decompressed, parsed and split as heavy work.
const expandedBytesLight = 256 << 10

// expands notes that a body becomes, or has become, so many bytes.
func (b *body) expands(bytes int) {
	if bytes <= expandedBytesLight {
		return
	}
	if b.work == nil {
		_, b.work = b.processors.Begin(b.base, b.owner.Name())
		b.work.Heavy()
	}
	b.work.Pace()
}

// expanding counts what comes out of a decompressor.
type expanding struct {
	io.Reader
	body  *body
	bytes int
}

func (e *expanding) Read(p []byte) (int, error) {
	e.body.expands(e.bytes)
	n, err := e.Reader.Read(p)
	e.bytes += n
	return n, err
}

// snappyRatioMax bounds what a byte of a snappy block can become: a copy of three
// bytes stands for 64. Without it a few bytes could ask for the largest body.
const snappyRatioMax = 22

// decodeSnappy decompresses one block; its length is known before.
func (b *body) decodeSnappy(ctx context.Context) ([]byte, error) {
	if !b.sent.ended {
		var err error
		if b.raw, _, err = b.fill(ctx, b.raw, &b.sent, b.limits.WholeBytesMax+1); err != nil {
			return nil, err
		}
		if limit := b.limits.wholeSent(); len(b.raw) > limit.bytesMax {
			return nil, tooLarge(limit.bytesMax, limit.set)
		}
	}
	n, err := snappy.DecodedLen(b.raw)
	if err != nil {
		return nil, corrupt(err)
	}
	if limit := b.limits.wholeDecoded(); n > limit.bytesMax {
		return nil, fmt.Errorf("%w, it has %d", tooLarge(limit.bytesMax, limit.set), n)
	}
	if n/snappyRatioMax > len(b.raw) {
		return nil, fmt.Errorf("%w: %d bytes cannot hold %d", refusal.ErrBodyCorrupt, len(b.raw), n)
	}
	if err := b.charge(ctx, cap(b.decoded)); err != nil {
		return nil, err
	}
	if n+parserSlack > cap(b.decoded) {
		if b.decoded, err = b.grow(ctx, b.decoded[:0], n+parserSlack); err != nil {
			return nil, err
		}
	}
	b.expands(n)
	decoded, err := snappy.Decode(b.decoded[:n], b.raw, b.work.Pace)
	if err != nil {
		return nil, corrupt(err)
	}
	b.dropRaw()
	return decoded, nil
}

// fill reads stream behind what the buffer has, until it ends or there are so many bytes wanted.
// Memory grows with what has arrived, not with what was announced.
func (b *body) fill(ctx context.Context, buffer []byte, stream io.Reader, wanted int) (_ []byte, ended bool, err error) {
	for empty := 0; len(buffer) < wanted; {
		if len(buffer)+parserSlack >= cap(buffer) {
			if buffer, err = b.grow(ctx, buffer, min(2*cap(buffer), wanted+parserSlack)); err != nil {
				return buffer, false, err
			}
		}
		n, err := stream.Read(buffer[len(buffer) : cap(buffer)-parserSlack])
		buffer = buffer[:len(buffer)+n]
		if errors.Is(err, io.EOF) {
			return buffer, true, nil
		}
		if err != nil {
			return buffer, false, corrupt(err)
		}
		if n > 0 {
			empty = 0
		} else if empty++; empty > emptyReadsMax {
			return buffer, false, corrupt(io.ErrNoProgress)
		}
	}
	return buffer, false, nil
}

func (b *body) grow(ctx context.Context, buffer []byte, capacity int) ([]byte, error) {
	capacity = max(capacity, cap(buffer)+parserSlack)
	if err := b.charge(ctx, capacity-cap(buffer)); err != nil {
		return buffer, err
	}
	grown := make([]byte, len(buffer), capacity)
	processor.Copy(grown, buffer)
	return grown, nil
}

func (b *body) charge(ctx context.Context, n int) error {
	if n <= 0 || b.lease.TryAcquire(int64(n)) {
		return nil
	}
	b.work.Idle()
	if err := b.lease.Acquire(ctx, int64(n)); err != nil {
		return budgetError(err)
	}
	return nil
}

// Grow implements parse.Memory: what a body becomes is charged to its request.
func (b *body) Grow(n int) error { return b.charge(b.base, n) }

// release frees the budget, and buffers that are too large to keep.
func (b *body) release() {
	b.lease.Close()
	b.work.End()
	b.work = nil
	b.source.Reset(nil) // it may refer to a body that is not kept
	b.sent, b.input, b.held = arriving{}, nil, nil
	if cap(b.raw) > bodyBytesKept {
		b.raw = nil
	}
	if cap(b.decoded) > bodyBytesKept {
		b.decoded = nil
	}
}
