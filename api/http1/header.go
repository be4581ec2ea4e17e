package http1

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"strconv"
)

// requestLine checks method, target and version.
func (c *Checker) requestLine(line []byte) {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, version, found := bytes.Cut(rest, []byte(" "))
	switch {
	case !isToken(method):
		c.err = refuse("%.40q does not begin with a method (RFC 9112, 3.1)", line)
	case !found || !isVersion(version):
		c.err = refuse("%.40q is no request line: expected METHOD TARGET HTTP/1.1 (RFC 9112, 3)", line)
	case !isTarget(method, target):
		c.err = refuse("%.40q is no target of a request (RFC 9112, 3.2)", target)
	case string(version) != "HTTP/1.1" && string(version) != "HTTP/1.0":
		c.err = &Error{Status: http.StatusHTTPVersionNotSupported, Reason: "the versions HTTP/1.1 and HTTP/1.0 are spoken here, not " + string(version)}
	}
	c.state, c.empty = stateFields, 0
	c.old = string(version) == "HTTP/1.0"
	c.host, c.signedIn, c.chunked, c.hasLength, c.length = false, false, false, false, 0
}

// isVersion reports whether text is the name of a version, spoken here or not.
func isVersion(text []byte) bool {
	digit := func(b byte) bool { return b >= '0' && b <= '9' }
	return len(text) == len("HTTP/1.1") && string(text[:5]) == "HTTP/" && digit(text[5]) && text[6] == '.' && digit(text[7])
}

// isTarget reports whether text has a form that a server takes: a path, a whole address, or
// the * of OPTIONS. Bytes beyond ASCII are taken, as clients send them unescaped.
func isTarget(method, text []byte) bool {
	for _, b := range text {
		if b <= ' ' || b == 0x7f {
			return false
		}
	}
	switch {
	case len(text) == 0:
		return false
	case text[0] == '/':
		return true
	case text[0] == '*':
		return len(text) == 1 && string(method) == http.MethodOptions
	}
	scheme, rest, found := bytes.Cut(text, []byte("://"))
	return found && len(rest) > 0 && (bytes.EqualFold(scheme, []byte("http")) || bytes.EqualFold(scheme, []byte("https")))
}

// field checks one line of the header section, and notes how the body is framed.
func (c *Checker) field(line []byte) {
	name, value, err := cutField(line)
	if err != nil {
		c.err = err
		return
	}
	switch len(name) {
	case len("Host"):
		if bytes.EqualFold(name, []byte("Host")) {
			if c.host || !isHost(value) {
				c.err = refuse("a request needs one Host, which names a host (RFC 9112, 3.2)")
			}
			c.host = true
		}
	case len("Authorization"):
		if bytes.EqualFold(name, []byte("Authorization")) {
			if c.signedIn { // a proxy may have added the second, and nobody knows which of them it means
				c.err = refuse("Authorization is there twice (RFC 9110, 5.3 and 11.6.2)")
			}
			c.signedIn = true
		}
	case len("Content-Length"):
		if bytes.EqualFold(name, []byte("Content-Length")) {
			c.contentLength(value)
		}
	case len("Transfer-Encoding"):
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			c.transferEncoding(value)
		}
	}
}

func (c *Checker) contentLength(value []byte) {
	if c.hasLength {
		c.err = refuse("Content-Length is there twice (RFC 9112, 6.3)")
		return
	}
	for _, b := range value {
		if b < '0' || b > '9' {
			c.err = refuse("Content-Length %.40q is no number (RFC 9110, 8.6)", value)
			return
		}
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		c.err = refuse("Content-Length %.40q is no number that can be (RFC 9110, 8.6)", value)
		return
	}
	c.hasLength, c.length = true, n
}

func (c *Checker) transferEncoding(value []byte) {
	last := value[bytes.LastIndexByte(value, ',')+1:]
	switch {
	case c.chunked || !bytes.EqualFold(bytes.Trim(last, " \t"), []byte("chunked")):
		c.err = refuse("Transfer-Encoding %.40q does not end in chunked, or is there twice (RFC 9112, 6.3)", value)
	case len(last) != len(value):
		c.err = &Error{Status: http.StatusNotImplemented, Reason: "of transfer codings only chunked is known here (RFC 9112, 6.1)"}
	}
	c.chunked = true
}

// cutField takes a line of a header or trailer section apart. The value is without the
// whitespace around it.
func cutField(line []byte) (name, value []byte, err *Error) {
	if len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
		return nil, nil, refuse("a header is folded into a second line (RFC 9112, 5.2)")
	}
	colon := bytes.IndexByte(line, ':')
	if colon < 0 || !isToken(line[:colon]) {
		return nil, nil, refuse("%.40q does not begin with the name of a header and a colon behind it (RFC 9112, 5.1)", line)
	}
	name, value = line[:colon], line[colon+1:]
	for len(value) > 0 && (value[0] == ' ' || value[0] == '\t') {
		value = value[1:]
	}
	for len(value) > 0 && (value[len(value)-1] == ' ' || value[len(value)-1] == '\t') {
		value = value[:len(value)-1]
	}
	if b, found := findControl(value); found {
		return nil, nil, refuse("the value of header %.40q has the control character %#02x (RFC 9110, 5.5)", name, b)
	}
	return name, value, nil
}

// findControl returns the first control character of text but tabs. Values are most of a
// header, so it looks at eight bytes at once, and at single ones where one of the eight may
// be a control character.
func findControl(text []byte) (b byte, found bool) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for len(text) > 0 {
		n := min(len(text), 8)
		if n == 8 {
			w := binary.LittleEndian.Uint64(text)
			deleted := w ^ 0x7f*each
			if ((w-' '*each)&^w|(deleted-each)&^deleted)&high == 0 {
				text = text[8:]
				continue
			}
		}
		for _, b := range text[:n] {
			if class[b]&isControl != 0 {
				return b, true
			}
		}
		text = text[n:]
	}
	return 0, false
}

// isHost reports whether text can be the host of an address, with or without a port.
func isHost(text []byte) bool {
	for _, b := range text {
		if class[b]&isHostByte == 0 {
			return false
		}
	}
	return len(text) > 0
}

func isToken(text []byte) bool {
	for _, b := range text {
		if class[b]&isTokenByte == 0 {
			return false
		}
	}
	return len(text) > 0
}

// isExtensions reports whether text is what may stand behind a chunk's size: any number of
// ";name" and ";name=value".
func isExtensions(text []byte) bool {
	for len(text) > 0 {
		if text[0] != ';' {
			return false
		}
		name := tokenLength(text[1:])
		if text = text[1+name:]; name == 0 {
			return false
		}
		if len(text) == 0 || text[0] != '=' {
			continue
		}
		text = text[1:]
		value := tokenLength(text)
		if value == 0 {
			value = quotedLength(text)
		}
		if text = text[value:]; value == 0 {
			return false
		}
	}
	return true
}

func tokenLength(text []byte) (n int) {
	for n < len(text) && class[text[n]]&isTokenByte != 0 {
		n++
	}
	return n
}

// quotedLength returns the length of the quoted string that text begins with, or 0.
func quotedLength(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return i + 1
		case class[text[i]]&isControl != 0:
			return 0
		case text[i] == '\\':
			i++
		}
	}
	return 0
}

// Classes of bytes.
const (
	isTokenByte = 1 << iota
	isHostByte
	isControl
)

//nolint:gochecknoglobals // constant tables
var (
	class    = newClasses()
	hexValue = newHexValues()
)

func newClasses() (table [256]uint8) {
	for b := range table {
		c := byte(b)
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if alphanumeric || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0 {
			table[b] |= isTokenByte
		}
		if alphanumeric || bytes.IndexByte([]byte("-._~%!$&'()*+;=:[]"), c) >= 0 {
			table[b] |= isHostByte
		}
		if c < ' ' && c != '\t' || c == 0x7f {
			table[b] |= isControl
		}
	}
	return table
}

func newHexValues() (table [256]int8) {
	for b := range table {
		table[b] = -1
	}
	for i, c := range []byte("0123456789abcdef") {
		table[c], table[bytes.ToUpper([]byte{c})[0]] = int8(i), int8(i)
	}
	return table
}
