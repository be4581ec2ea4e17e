package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/processor"
)

// Kinds of errors of a request's body.
var (
	errBodyTooLarge = errors.New("the request's body is too large")
	errBodyEncoding = errors.New("unknown Content-Encoding")
	errBodyCorrupt  = errors.New("the request's body cannot be decompressed")
	errBodyRead     = errors.New("the request's body did not arrive whole")
)

// body reads the bodies of requests, one at a time, into buffers that are used
// again. What the buffers take is charged to the server's budget.
type body struct {
	lease  budget.Lease // of its request
	base   context.Context
	limits *Limits
	// watch returns a context that ends when the client hangs up, and what ends the watch; nil:
	// nobody looks. A client that writes may close its side and wait for the answer.
	watch      func(context.Context) (context.Context, func())
	processors *processor.Pool
	work       *processor.Work // begun when the body turned out to be large; nil: not yet
	owner      budget.Owner
	sent       int  // bytes of the last body, as sent
	whole      bool // all of it was read, so that the connection can go on

	raw     []byte // as sent
	decoded []byte
	gzip    *gzip.Reader
	source  bytes.Reader
}

const (
	bodyBytesFirst = 16 << 10 // of a buffer
	bodyBytesKept  = 1 << 20  // larger buffers are given to the collector
	// parserSlack is the room behind a body that lets the parser read whole words.
	parserSlack = 16
)

// read returns the whole body of a request, decompressed by its Content-Encoding or
// by the one given if it has none. It is valid until release. Errors are one of
// the kinds above, or errBudget.
func (b *body) read(ctx context.Context, request *fasthttp.RequestCtx, encodingElse string) ([]byte, error) {
	raw, err := b.readRaw(ctx, request, b.limits.BodyBytesMax)
	if err != nil {
		return nil, err
	}
	encoding := fieldOf(request, fasthttp.HeaderContentEncoding)
	if len(encoding) == 0 {
		if encodingElse == "" {
			return raw, nil
		}
		encoding = []byte(encodingElse)
	}
	return b.decode(ctx, raw, encoding)
}

// readOther returns the body as it was sent.
func (b *body) readOther(ctx context.Context, request *fasthttp.RequestCtx) ([]byte, error) {
	return b.readRaw(ctx, request, b.limits.OtherBodyBytesMax)
}

func (b *body) readRaw(ctx context.Context, request *fasthttp.RequestCtx, bytesMax int) ([]byte, error) {
	b.sent, b.whole = 0, false
	if err := b.charge(ctx, cap(b.raw)); err != nil {
		return nil, err
	}
	stream := request.RequestBodyStream()
	if stream == nil {
		b.whole = true
		return b.raw[:0], nil
	}
	announced := max(0, request.Request.Header.ContentLength())
	if announced > bytesMax {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errBodyTooLarge, announced, bytesMax)
	}
	raw, err := b.fill(ctx, b.raw, stream, announced, bytesMax, errBodyRead)
	if own, ok := request.Conn().(*conn); ok && own.cut && err == nil { // fasthttp takes the end for that of the body
		err = fmt.Errorf("%w: %w", errBodyRead, io.ErrUnexpectedEOF)
	}
	b.raw, b.sent, b.whole = raw[:0], len(raw), err == nil
	return raw, err
}

func (b *body) decode(ctx context.Context, raw, encoding []byte) ([]byte, error) {
	encoding = bytes.TrimSpace(encoding)
	var stream io.Reader
	b.source.Reset(raw)
	switch {
	case bytes.EqualFold(encoding, []byte("identity")):
		return raw, nil
	case bytes.EqualFold(encoding, []byte("snappy")):
		return b.decodeSnappy(ctx, raw)
	case bytes.EqualFold(encoding, []byte("gzip")), bytes.EqualFold(encoding, []byte("x-gzip")):
		if b.gzip == nil {
			b.gzip = new(gzip.Reader)
		}
		if err := b.gzip.Reset(&b.source); err != nil {
			return nil, fmt.Errorf("%w: %w", errBodyCorrupt, err)
		}
		stream = b.gzip
	case bytes.EqualFold(encoding, []byte("deflate")):
		z, err := zlib.NewReader(&b.source)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBodyCorrupt, err)
		}
		defer z.Close()
		stream = z
	default:
		return nil, fmt.Errorf("%w: %q", errBodyEncoding, encoding)
	}
	if err := b.charge(ctx, cap(b.decoded)); err != nil {
		return nil, err
	}
	decoded, err := b.fill(ctx, b.decoded, &expanding{stream, b, 0}, 2*len(raw), b.limits.BodyBytesDecodedMax, errBodyCorrupt)
	b.decoded = decoded[:0]
	return decoded, err
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
		_, b.work = b.processors.Begin(b.base, processorOwner(b.owner))
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
func (b *body) decodeSnappy(ctx context.Context, raw []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBodyCorrupt, err)
	}
	if n > b.limits.BodyBytesDecodedMax {
		return nil, fmt.Errorf("%w: %d bytes decompressed, at most %d", errBodyTooLarge, n, b.limits.BodyBytesDecodedMax)
	}
	if n/snappyRatioMax > len(raw) {
		return nil, fmt.Errorf("%w: %d bytes cannot hold %d", errBodyCorrupt, len(raw), n)
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
	decoded, err := snappy.Decode(b.decoded[:n], raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBodyCorrupt, err)
	}
	return decoded, nil
}

// fill reads stream to its end; broken is the kind of its errors. Memory grows
// with what has arrived, not with what was announced.
func (b *body) fill(ctx context.Context, buffer []byte, stream io.Reader, announced, bytesMax int, broken error) ([]byte, error) {
	buffer = buffer[:0]
	if first := min(announced, 4*bodyBytesFirst) + parserSlack; first > cap(buffer) {
		var err error
		if buffer, err = b.grow(ctx, buffer, max(first, bodyBytesFirst)); err != nil {
			return buffer, err
		}
	}
	for empty := 0; ; {
		if len(buffer)+parserSlack >= cap(buffer) {
			var err error
			if buffer, err = b.grow(ctx, buffer, min(2*cap(buffer), bytesMax+2*parserSlack)); err != nil {
				return buffer, err
			}
		}
		n, err := stream.Read(buffer[len(buffer) : cap(buffer)-parserSlack])
		buffer = buffer[:len(buffer)+n]
		if len(buffer) > bytesMax {
			return buffer, fmt.Errorf("%w: at most %d bytes", errBodyTooLarge, bytesMax)
		}
		if errors.Is(err, io.EOF) {
			return buffer, nil
		}
		if err != nil {
			return buffer, fmt.Errorf("%w: %w", broken, err)
		}
		if n > 0 {
			empty = 0
		} else if empty++; empty > emptyReadsMax {
			return buffer, fmt.Errorf("%w: %w", broken, io.ErrNoProgress)
		}
	}
}

const emptyReadsMax = 100

func (b *body) grow(ctx context.Context, buffer []byte, capacity int) ([]byte, error) {
	capacity = max(capacity, cap(buffer)+parserSlack)
	if err := b.charge(ctx, capacity-cap(buffer)); err != nil {
		return buffer, err
	}
	grown := make([]byte, len(buffer), capacity)
	copy(grown, buffer)
	return grown, nil
}

func (b *body) charge(ctx context.Context, n int) error {
	if n <= 0 || b.lease.TryAcquire(int64(n)) {
		return nil
	}
	b.work.Idle()
	if b.watch != nil {
		var stop func()
		ctx, stop = b.watch(ctx)
		defer stop()
	}
	if err := b.lease.Acquire(ctx, int64(n)); err != nil {
		return budgetError(err)
	}
	return nil
}

// Grow implements parse.Memory: what a body becomes is charged to its request.
func (b *body) Grow(n int) error { return b.charge(b.base, n) }

// release gives back the budget, and buffers that are too large to keep.
func (b *body) release() {
	b.lease.Close()
	b.work.End()
	b.work = nil
	b.source.Reset(nil) // it may refer to a body that is not kept
	if cap(b.raw) > bodyBytesKept {
		b.raw = nil
	}
	if cap(b.decoded) > bodyBytesKept {
		b.decoded = nil
	}
}
