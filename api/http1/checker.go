package http1

import (
	"bytes"
	"fmt"
	"net/http"
)

// Error is a request that is refused. The connection must be closed after the answer, as nobody
// knows where the next request begins.
type Error struct {
	Status int    // of the answer: 400, 431, 501 or 505
	Reason string // for people, with the section of the RFC
}

func (e *Error) Error() string { return e.Reason }

func refuse(format string, arguments ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Reason: fmt.Sprintf(format, arguments...)}
}

// state is what the next byte of a connection belongs to.
type state uint8

const (
	stateStart      state = iota // a request line, or an empty line before it
	stateFields                  // the header section
	stateBody                    // a body of known length
	stateChunkSize               // the line before a chunk
	stateChunkData               // a chunk
	stateChunkEnd                // CR LF behind a chunk
	stateTrailer                 // the trailer section
	stateTrailerEnd              // LF behind the CR that ends the trailer section
)

// Bounds of what is not part of the header, which the parser bounds.
const (
	emptyLinesMax   = 4       // before a request line
	chunkLineMax    = 1 << 10 // bytes of a chunk's size and its extensions
	trailerBytesMax = 16 << 10
	lineBytesKept   = 1 << 10 // of the buffer of an unfinished line
)

// Checker checks the bytes of one connection in their order. It is not safe for concurrent use.
type Checker struct {
	lineBytesMax int
	state        state
	left         int64  // bytes left of a body or chunk, or of its end
	line         []byte // the start of a line whose end has not come
	empty        int    // empty lines before a request line
	trailer      int    // bytes of the trailer section
	requests     int    // whose headers have ended
	err          *Error

	// Of the header that is being read.
	old       bool // HTTP/1.0
	host      bool
	signedIn  bool // it has an Authorization
	chunked   bool
	hasLength bool
	length    int64
}

// NewChecker returns the checker of a new connection; lineBytesMax bounds one line of a header.
func NewChecker(lineBytesMax int) Checker { return Checker{lineBytesMax: lineBytesMax} }

// Err returns the *Error that ended the connection's input, or nil.
func (c *Checker) Err() error {
	if c.err == nil {
		return nil // not a nil *Error
	}
	return c.err
}

// Unfinished reports whether the connection would end inside a request if it ended here.
func (c *Checker) Unfinished() bool { return c.state != stateStart || len(c.line) > 0 }

// Requests returns the number of requests whose headers have ended.
func (c *Checker) Requests() int { return c.requests }

// Check examines the next bytes of the connection, and moves those that may be handed on to
// the front of p. It returns their number. When it meets what is refused, it stops before the
// end of that line, so that a parser never sees the line whole, and Err is set.
func (c *Checker) Check(p []byte) (n int) {
	for examined := 0; examined < len(p) && c.err == nil; {
		more, passed := c.CheckOne(p[examined:])
		if n != examined {
			copy(p[n:], p[examined:examined+passed])
		}
		examined, n = examined+more, n+passed
	}
	return n
}

// CheckOne is Check of the bytes up to the end of a request, if there is one in p. It also returns
// the number of bytes that it has examined.
func (c *Checker) CheckOne(p []byte) (examined, n int) {
	i, inside := 0, c.state != stateStart
	for i < len(p) && c.err == nil && (!inside || c.state != stateStart) {
		var taken, passed int
		switch c.state {
		case stateBody, stateChunkData:
			taken = int(min(int64(len(p)-i), c.left))
			passed = taken
			c.skip(taken)
		case stateChunkEnd:
			taken, passed = 1, c.chunkEnd(p[i])
		case stateTrailer, stateTrailerEnd:
			taken, passed = c.trailers(p[i:])
		default:
			taken = c.takeLine(p[i:])
			passed = taken
			if c.err != nil {
				passed = max(0, taken-1) // without its end
			}
		}
		if n != i {
			copy(p[n:], p[i:i+passed])
		}
		i, n = i+taken, n+passed
		inside = inside || c.state != stateStart
	}
	return i, n
}

// skip counts bytes of a body.
func (c *Checker) skip(n int) {
	if c.left -= int64(n); c.left > 0 {
		return
	}
	if c.state == stateBody {
		c.state = stateStart
		return
	}
	c.state, c.left = stateChunkEnd, 2
}

// chunkEnd checks a byte of the CR LF behind a chunk.
func (c *Checker) chunkEnd(b byte) (passed int) {
	if b != "\n\r"[c.left-1] {
		c.err = refuse("a chunk is not followed by CR LF where its size says (RFC 9112, 7.1)")
		return 0
	}
	if c.left--; c.left == 0 {
		c.state = stateChunkSize
	}
	return 1
}

// takeLine takes as much of p as belongs to the current line, and checks the line at its end.
func (c *Checker) takeLine(p []byte) (taken int) {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		if c.hold(p) {
			return len(p)
		}
		return 0
	}
	line := p[:end]
	if len(c.line) > 0 {
		if !c.hold(line) {
			return 0
		}
		line = c.line
	}
	if len(line) == 0 || line[len(line)-1] != '\r' {
		c.err = refuse("a line ends in LF without CR (RFC 9112, 2.2)")
	} else {
		c.checkLine(line[:len(line)-1])
	}
	if c.line = c.line[:0]; cap(c.line) > lineBytesKept {
		c.line = nil
	}
	return end + 1
}

// hold keeps the part of a line that has come; false: the line is too long.
func (c *Checker) hold(part []byte) bool {
	bound, status := c.lineBytesMax, http.StatusRequestHeaderFieldsTooLarge
	if c.state == stateChunkSize {
		bound, status = chunkLineMax, http.StatusBadRequest
	}
	if len(c.line)+len(part) > bound {
		c.err = &Error{Status: status, Reason: fmt.Sprintf("a line is longer than %d bytes", bound)}
		return false
	}
	c.line = append(c.line, part...)
	return true
}

func (c *Checker) checkLine(line []byte) {
	switch {
	case c.state == stateChunkSize:
		c.chunkSize(line)
	case c.state == stateFields && len(line) == 0:
		c.endHeader()
	case c.state == stateFields:
		c.field(line)
	case len(line) > 0:
		c.requestLine(line)
	default:
		if c.empty++; c.empty > emptyLinesMax {
			c.err = refuse("more than %d empty lines before a request (RFC 9112, 2.2)", emptyLinesMax)
		}
	}
}

// endHeader decides how the body is framed.
func (c *Checker) endHeader() {
	c.requests++
	switch {
	case !c.host && !c.old:
		c.err = refuse("a request of HTTP/1.1 has no Host (RFC 9112, 3.2)")
	case c.chunked && c.hasLength:
		c.err = refuse("Content-Length beside Transfer-Encoding (RFC 9112, 6.1)")
	case c.chunked && c.old:
		c.err = refuse("Transfer-Encoding in a request of HTTP/1.0 (RFC 9112, 6.1)")
	case c.chunked:
		c.state = stateChunkSize
	case c.length > 0:
		c.state, c.left = stateBody, c.length
	default:
		c.state = stateStart
	}
}

// chunkSize checks the line before a chunk.
func (c *Checker) chunkSize(line []byte) {
	size, digits := int64(0), 0
	for digits < len(line) && hexValue[line[digits]] >= 0 {
		size = size<<4 | int64(hexValue[line[digits]])
		if digits++; digits > chunkDigitsMax {
			c.err = refuse("a chunk's size has more than %d digits (RFC 9112, 7.1)", chunkDigitsMax)
			return
		}
	}
	if digits == 0 || len(line) > chunkLineMax || !isExtensions(line[digits:]) {
		c.err = refuse("%.40q is no size of a chunk (RFC 9112, 7.1)", line)
		return
	}
	if size == 0 {
		c.state, c.trailer = stateTrailer, 0
		return
	}
	c.state, c.left = stateChunkData, size
}

// chunkDigitsMax keeps a chunk's size within 60 bits.
const chunkDigitsMax = 15

// trailers checks the trailer section and leaves it out, but for the empty line at its end.
func (c *Checker) trailers(p []byte) (taken, passed int) {
	if c.state == stateTrailerEnd {
		if p[0] != '\n' {
			c.err = refuse("a bare CR in the trailer section (RFC 9112, 2.2)")
			return 1, 0
		}
		c.state = stateStart
		return 1, 1
	}
	if len(c.line) == 0 && p[0] == '\r' {
		c.state = stateTrailerEnd
		return 1, 1
	}
	end := bytes.IndexByte(p, '\n')
	taken = end + 1
	if end < 0 {
		taken = len(p)
	}
	if c.trailer += taken; c.trailer > trailerBytesMax || !c.hold(p[:taken]) {
		c.err = &Error{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: fmt.Sprintf("trailers of more than %d bytes", trailerBytesMax)}
		return taken, 0
	}
	if end < 0 {
		return taken, 0
	}
	if line, ok := bytes.CutSuffix(c.line, []byte("\r\n")); !ok {
		c.err = refuse("a line ends in LF without CR (RFC 9112, 2.2)")
	} else if _, _, err := cutField(line); err != nil {
		c.err = err
	}
	c.line = c.line[:0]
	return taken, 0
}
