package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// answerBytesMax bounds the body of an answer that a client reads.
const answerBytesMax = 1 << 28

// ErrAnswer marks an answer that is not valid HTTP/1.1.
var ErrAnswer = errors.New("not a valid HTTP answer")

// Conn is a client connection. It speaks HTTP/1.1 with keep-alive, one request at
// a time. It is not safe for concurrent use.
type Conn struct {
	net.Conn
	reader *bufio.Reader
	body   []byte
}

// Dial connects over TCP; sendBytes is the size of the socket's send buffer, 0 the
// system's choice.
func Dial(ctx context.Context, address string, sendBytes int) (*Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok && sendBytes > 0 {
		if err := tcp.SetWriteBuffer(sendBytes); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return &Conn{Conn: conn, reader: bufio.NewReaderSize(conn, 4096)}, nil
}

// RoundTrip writes a whole request and reads the answer. The body is valid until
// the next call.
func (c *Conn) RoundTrip(request []byte) (status int, body []byte, err error) {
	if _, err := c.Write(request); err != nil {
		return 0, nil, err
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 13 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return 0, nil, fmt.Errorf("%w: it begins with %.60q", ErrAnswer, line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil || status < 100 {
		return 0, nil, fmt.Errorf("%w: status %q", ErrAnswer, line[9:12])
	}
	length, chunked, err := c.headers()
	if err != nil {
		return status, nil, err
	}
	c.body = c.body[:0]
	switch {
	case status == 204 || status == 304:
		return status, c.body, nil
	case chunked:
		err = c.readChunks()
	case length < 0:
		err = fmt.Errorf("%w: neither a length nor chunks", ErrAnswer)
	default:
		err = c.readBody(length)
	}
	return status, c.body, err
}

// headers reads up to the empty line and picks what frames the body.
func (c *Conn) headers() (length int, chunked bool, err error) {
	length = -1
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, chunked, nil
		}
		// Only two headers matter; both begin with one of these letters.
		if line[0]|0x20 != 'c' && line[0]|0x20 != 't' {
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(strings.TrimSpace(string(value))); err != nil || length < 0 || length > answerBytesMax {
				return 0, false, fmt.Errorf("%w: Content-Length %q", ErrAnswer, value)
			}
		}
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			chunked = strings.EqualFold(strings.TrimSpace(string(value)), "chunked")
		}
	}
}

func (c *Conn) readBody(length int) error {
	start := len(c.body)
	if start+length > answerBytesMax {
		return fmt.Errorf("%w: longer than %d bytes", ErrAnswer, answerBytesMax)
	}
	for cap(c.body) < start+length {
		c.body = append(c.body[:cap(c.body)], 0)
	}
	c.body = c.body[:start+length]
	_, err := io.ReadFull(c.reader, c.body[start:])
	return err
}

func (c *Conn) readChunks() error {
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(";"))
		length, err := strconv.ParseUint(string(size), 16, 31)
		if err != nil {
			return fmt.Errorf("%w: chunk size %q", ErrAnswer, size)
		}
		if err := c.readBody(int(length)); err != nil {
			return err
		}
		if _, err := c.reader.Discard(2); err != nil {
			return err
		}
		if length == 0 {
			return nil
		}
	}
}
