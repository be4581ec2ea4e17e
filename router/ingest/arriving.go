package ingest

import (
	"errors"
	"fmt"
	"io"

	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// Flags that bound bodies, as errors name them.
const (
	flagBodyBytes    = "--body-bytes-max"
	flagDecodedBytes = "--body-decoded-bytes-max, decompressed"
	flagWhole        = "--memory-limit, of a body that has to be in memory at once: a remote write, JSON, or with an Idempotency-Key"
)

// sentLimit is the most bytes of a body, and what sets them.
type sentLimit struct {
	bytesMax int
	set      string
}

// sent returns the bound of a body as sent.
func (l *Limits) sent(m manner) sentLimit {
	if m.chunks {
		return sentLimit{l.BodyBytesMax, flagBodyBytes}
	}
	return l.wholeSent()
}

// wholeSent and wholeDecoded return the bounds of a body that has to be in memory at once.
func (l *Limits) wholeSent() sentLimit {
	if l.WholeBytesMax == l.BodyBytesMax {
		return sentLimit{l.BodyBytesMax, flagBodyBytes}
	}
	return sentLimit{l.WholeBytesMax, flagWhole}
}

func (l *Limits) wholeDecoded() sentLimit {
	if l.WholeDecodedBytesMax == l.BodyBytesDecodedMax {
		return sentLimit{l.BodyBytesDecodedMax, flagDecodedBytes}
	}
	return sentLimit{l.WholeDecodedBytesMax, flagWhole}
}

func tooLarge(bytesMax int, set string) error {
	if set == "" {
		return fmt.Errorf("%w: at most %d bytes", refusal.ErrBodyTooLarge, bytesMax)
	}
	return fmt.Errorf("%w: at most %d bytes (%s)", refusal.ErrBodyTooLarge, bytesMax, set)
}

// arriving is the body of a request as it is sent. Errors of Read are errBodyRead, errBodyTooLarge
// and, at the end, io.EOF.
type arriving struct {
	stream io.Reader
	conn   *conn // nil: not known
	limit  sentLimit
	bytes  int
	empty  int  // reads without a byte, one after the other
	ended  bool // all was read, so that the connection can go on
}

const emptyReadsMax = 100

// Read implements io.Reader.
func (a *arriving) Read(p []byte) (int, error) {
	if a.ended {
		return 0, io.EOF
	}
	n, err := a.stream.Read(p)
	a.bytes += n
	if a.empty++; n > 0 {
		a.empty = 0
	}
	switch {
	case a.bytes > a.limit.bytesMax:
		return n, tooLarge(a.limit.bytesMax, a.limit.set)
	case errors.Is(err, io.EOF):
		if a.conn != nil && a.conn.cut { // fasthttp takes the end for that of the body
			return n, fmt.Errorf("%w: %w", refusal.ErrBodyRead, io.ErrUnexpectedEOF)
		}
		a.ended = true
		return n, io.EOF
	case err != nil:
		return n, fmt.Errorf("%w: %w", refusal.ErrBodyRead, err)
	case a.empty > emptyReadsMax:
		return n, fmt.Errorf("%w: %w", refusal.ErrBodyRead, io.ErrNoProgress)
	}
	return n, nil
}

// compressed is what a decompressor reads of a body that arrives while it works.
type compressed body

// Read implements io.Reader.
func (c *compressed) Read(p []byte) (int, error) {
	if c.source.Len() == 0 {
		c.work.Idle() // the network may be slow
		n, err := c.sent.Read(c.raw[:cap(c.raw)])
		c.source.Reset(c.raw[:n])
		if n == 0 {
			return 0, err
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	return c.source.Read(p)
}
