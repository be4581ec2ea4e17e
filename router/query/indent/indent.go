// Package indent makes JSON readable while it is written.
package indent

import (
	"bytes"
	"io"
)

// Writer writes JSON with a line end between elements, and a unit for each level before them.
// Its input has no white space outside of strings but line ends between documents.
type Writer struct {
	out      io.Writer
	unit     string
	depth    int
	inString bool
	escaped  bool
	opened   bool // the last character opened an object or array
	text     bytes.Buffer
}

// New returns a writer to out.
func New(out io.Writer, unit string) *Writer { return &Writer{out: out, unit: unit} }

// Write implements io.Writer.
func (n *Writer) Write(p []byte) (int, error) {
	n.text.Reset()
	for _, c := range p {
		n.add(c)
	}
	if _, err := n.out.Write(n.text.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (n *Writer) add(c byte) {
	if n.inString {
		n.text.WriteByte(c)
		switch {
		case n.escaped:
			n.escaped = false
		case c == '\\':
			n.escaped = true
		case c == '"':
			n.inString = false
		}
		return
	}
	closes := c == '}' || c == ']'
	if closes {
		n.depth--
	}
	if n.opened != closes && (n.opened || closes) {
		n.line()
	}
	n.opened = c == '{' || c == '['
	n.text.WriteByte(c)
	switch c {
	case '{', '[':
		n.depth++
	case ',':
		n.line()
	case ':':
		n.text.WriteByte(' ')
	case '"':
		n.inString = true
	}
}

func (n *Writer) line() {
	n.text.WriteByte('\n')
	for range n.depth {
		n.text.WriteString(n.unit)
	}
}
