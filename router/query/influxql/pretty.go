package influxql

import (
	"bytes"
	"net/http"
)

// indenter writes JSON with line ends and four spaces for each level, as
// encoding/json.MarshalIndent does. Its input has no white space outside of strings but
// line ends between documents.
type indenter struct {
	http.ResponseWriter
	depth    int
	inString bool
	escaped  bool
	opened   bool // the last character opened an object or array
	text     bytes.Buffer
}

// Write implements io.Writer.
func (n *indenter) Write(p []byte) (int, error) {
	n.text.Reset()
	for _, c := range p {
		n.add(c)
	}
	if _, err := n.ResponseWriter.Write(n.text.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (n *indenter) Flush() {
	if f, ok := n.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

func (n *indenter) add(c byte) {
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

func (n *indenter) line() {
	n.text.WriteByte('\n')
	for range n.depth {
		n.text.WriteString("    ")
	}
}
