package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// feed returns a checker text in pieces of a size, and returns what it hands on.
func feed(text string, size int) (c Checker, passed string) {
	c = NewChecker(16 << 10)
	var out []byte
	for rest := []byte(text); len(rest) > 0 && c.Err() == nil; {
		piece := bytes.Clone(rest[:min(size, len(rest))])
		rest = rest[len(piece):]
		out = append(out, piece[:c.Check(piece)]...)
	}
	return c, string(out)
}

const head = "POST /write HTTP/1.1\r\nHost: h\r\n"

// cases are requests by the section of the RFC that speaks of them; status 0: they are taken.
var cases = []struct {
	section, text string
	status        int
}{
	{"9112 2.2 lines", "GET / HTTP/1.1\nHost: h\r\n\r\n", 400},
	{"9112 2.2 lines", "GET / HTTP/1.1\r\nHost: h\n\r\n", 400},
	{"9112 2.2 lines", "GET / HTTP/1.1\r\nHost: h\r\n\n", 400},
	{"9112 2.2 bare CR", "GET / HTTP/1.1\r\nHost: h\r\nA: b\rc: d\r\n\r\n", 400},
	{"9112 2.2 bare CR", "GET /\rx HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 2.2 empty line before", "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 0},
	{"9112 2.2 empty lines before", strings.Repeat("\r\n", 9) + "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 2.2 whitespace before", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
	{"9112 2.3 version", "GET / HTTP/9.9\r\nHost: h\r\n\r\n", 505},
	{"9112 2.3 version", "PRI * HTTP/2.0\r\n\r\n", 400},
	{"9112 2.3 version", "GET / HTTP/2.0\r\n\r\n", 505},
	{"9112 2.3 version", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505},
	{"9112 2.3 version", "GET / http/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 2.3 version", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", 400},
	{"9112 2.3 version", "GET / HTTP/1.0\r\n\r\n", 0},
	{"9112 3 request line", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 3 request line", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400},
	{"9112 3 request line", " GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 3 request line", "GET /\r\n\r\n", 400},
	{"9112 3 request line", "GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 3.1 method", "G(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 3.1 method", "PATCH / HTTP/1.1\r\nHost: h\r\n\r\n", 0},
	{"9112 3.2 target", "GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 3.2 target", "GET /a\x01 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 3.2.2 absolute", "GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n", 0},
	{"9112 3.2.2 absolute", "GET ftp://h/x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 3.2.3 authority", "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 3.2.4 asterisk", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 0},
	{"9112 3.2.4 asterisk", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"9112 3.2 no Host", "GET / HTTP/1.1\r\n\r\n", 400},
	{"9110 5.3 two Authorizations", "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\nauthorization: Bearer a\r\n\r\n", 400},
	{"9110 5.3 one Authorization each", "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\n\r\n", 0},
	{"9112 3.2 two Hosts", "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400},
	{"9112 3.2 Host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
	{"9112 3.2 Host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
	{"9112 3.2 Host", "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", 400},
	{"9112 3.2 Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
	{"9112 3.2 Host", "GET / HTTP/1.1\r\nhOST: [::1]:80\r\n\r\n", 0},
	{"9112 5 no colon", "GET / HTTP/1.1\r\nHost: h\r\nword\r\n\r\n", 400},
	{"9112 5.1 space before colon", "GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400},
	{"9112 5.1 no name", "GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n", 400},
	{"9112 5.1 name", "GET / HTTP/1.1\r\nHost: h\r\nA B: x\r\n\r\n", 400},
	{"9112 5.1 name", "GET / HTTP/1.1\r\nHost: h\r\nA\x00B: x\r\n\r\n", 400},
	{"9112 5.1 name", "GET / HTTP/1.1\r\nHost: h\r\n\xc3\xa4: x\r\n\r\n", 400},
	{"9112 5.2 folded", "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400},
	{"9112 5.2 folded", "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\tc\r\n\r\n", 400},
	{"9110 5.5 value", "GET / HTTP/1.1\r\nHost: h\r\nA: b\x00c\r\n\r\n", 400},
	{"9110 5.5 value", "GET / HTTP/1.1\r\nHost: h\r\nA: b\x7fc\r\n\r\n", 400},
	{"9110 5.5 value", "GET / HTTP/1.1\r\nHost: h\r\nA:\t b\tc\xff \r\n\r\n", 0},
	{"9112 6.1 both", head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"9112 6.1 both", head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
	{"9112 6.1 HTTP/1.0", "POST /write HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"9112 6.1 unknown", head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
	{"9112 6.3 not chunked", head + "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n", 400},
	{"9112 6.3 not chunked", head + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400},
	{"9112 6.3 not chunked", head + "Transfer-Encoding: identity\r\n\r\n", 400},
	{"9112 6.3 not chunked", head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
	{"9112 6.3 not chunked", head + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 400},
	{"9112 6.3 not chunked", head + "Transfer-Encoding:\r\n\r\n0\r\n\r\n", 400},
	{"9112 6.3 twice", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"9112 6.3 lengths", head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
	{"9112 6.3 lengths", head + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400},
	{"9112 6.3 lengths", head + "Content-Length: 1, 1\r\n\r\na", 400},
	{"9110 8.6 length", head + "Content-Length: +1\r\n\r\na", 400},
	{"9110 8.6 length", head + "Content-Length: -1\r\n\r\na", 400},
	{"9110 8.6 length", head + "Content-Length: 0x1\r\n\r\na", 400},
	{"9110 8.6 length", head + "Content-Length: 1 1\r\n\r\na", 400},
	{"9110 8.6 length", head + "Content-Length:\r\n\r\n", 400},
	{"9110 8.6 length", head + "Content-Length: 99999999999999999999\r\n\r\n", 400},
	{"9112 6.2 length", head + "Content-Length: 3\r\n\r\na\nb", 0},
	{"9112 7.1 chunked", head + "Transfer-Encoding: Chunked\r\n\r\n3\r\na\nb\r\n00\r\n\r\n", 0},
	{"9112 7.1 size", head + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1 size", head + "Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1 size", head + "Transfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1 size", head + "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1 size", head + "Transfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1 size", head + "Transfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1 LF", head + "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1 end of chunk", head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400},
	{"9112 7.1 end of chunk", head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n", 400},
	{"9112 7.1.1 extension", head + "Transfer-Encoding: chunked\r\n\r\n3;a;b=c;d=\"e;\\\"f\"\r\nabc\r\n0;x\r\n\r\n", 0},
	{"9112 7.1.1 extension", head + "Transfer-Encoding: chunked\r\n\r\n3;\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1.1 extension", head + "Transfer-Encoding: chunked\r\n\r\n3;a=\x01\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1.1 extension", head + "Transfer-Encoding: chunked\r\n\r\n3;a\rb\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1.1 extension", head + "Transfer-Encoding: chunked\r\n\r\n3;a=\"b\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1.1 extension", head + "Transfer-Encoding: chunked\r\n\r\n3;" + strings.Repeat("a", 5000) + "\r\nabc\r\n0\r\n\r\n", 400},
	{"9112 7.1.2 trailer", head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Scope-OrgID: b\r\nC: d\r\n\r\n", 0},
	{"9112 7.1.2 trailer", head + "Transfer-Encoding: chunked\r\n\r\n0\r\nA b: c\r\n\r\n", 400},
	{"9112 7.1.2 trailer", head + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n c\r\n\r\n", 400},
	{"9112 7.1.2 trailer", head + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n", 400},
	{"9112 7.1.2 trailer", head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\rA: b\r\n\r\n", 400},
	{"9112 7.1.2 trailer", head + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", 5000) + "\r\n", 431},
	{"9110 5.4 too long", "GET / HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", 431},
}

// Whatever the pieces in which a request comes, it is taken or refused as the RFC says, and
// of a refused one the line at fault is never handed on with its end.
func TestRequests(t *testing.T) {
	for _, one := range cases {
		for _, size := range []int{1, 2, 7, 1 << 20} {
			text := one.text + "GET / HTTP/1.0\r\n\r\n"
			c, passed := feed(text, size)
			var refused *Error
			if one.status == 0 {
				if want := strings.Replace(text, "X-Scope-OrgID: b\r\nC: d\r\n", "", 1); c.Err() != nil || passed != want || c.Unfinished() {
					t.Errorf("%s: %q in pieces of %d: %v, hands on %q, unfinished %v", one.section, one.text, size, c.Err(), passed, c.Unfinished())
				}
				continue
			}
			whole := one.status == 431 && size > 7 // one that is whole at once need not be held, and the parser bounds it
			if !errors.As(c.Err(), &refused) && !(whole && c.Err() == nil) || refused != nil && refused.Status != one.status || !strings.HasPrefix(text, passed) && !whole {
				t.Errorf("%s: %q in pieces of %d: %v, want %d; hands on %q", one.section, one.text, size, c.Err(), one.status, passed)
			}
		}
	}
}

// A request that is cut anywhere is unfinished, and one more byte would never be its end.
func TestUnfinished(t *testing.T) {
	for _, text := range []string{
		head + "Content-Length: 3\r\n\r\nabc", head + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n",
	} {
		for n := 1; n < len(text); n++ {
			if c, _ := feed(text[:n], 5); c.Err() != nil || !c.Unfinished() {
				t.Errorf("%q: %v, unfinished %v", text[:n], c.Err(), c.Unfinished())
			}
		}
		if c, _ := feed(text, 5); c.Unfinished() {
			t.Errorf("%q is unfinished", text)
		}
	}
}

// FuzzChecker compares with net/http: what is taken here, it frames alike, byte for byte.
func FuzzChecker(f *testing.F) {
	for _, one := range cases {
		f.Add([]byte(one.text), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		c, passed := feed(string(text), 1+max(0, size)%64)
		whole, again := feed(string(text), len(text)+1)
		if (c.Err() == nil) != (whole.Err() == nil) && len(text) < 1<<10 || c.Err() == nil && passed != again {
			t.Fatalf("in pieces %v, %q; at once %v, %q", c.Err(), passed, whole.Err(), again)
		}
		if whole.Err() != nil || whole.Unfinished() {
			return
		}
		from := bufio.NewReader(strings.NewReader(again))
		for {
			for b, err := from.Peek(1); err == nil && (b[0] == '\r' || b[0] == '\n'); b, err = from.Peek(1) {
				_, _ = from.Discard(1)
			}
			r, err := http.ReadRequest(from)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Skip() // it is stricter in what an address is
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Fatalf("%q is taken, and net/http says: %v", again, err)
			}
		}
	})
}

// A control character is found wherever it stands among all other bytes.
func TestFindControl(t *testing.T) {
	for b := range 256 {
		for length := 1; length <= 20; length++ {
			for at := range length {
				text := bytes.Repeat([]byte("\xffa \t~"), 4)[:length]
				text[at] = byte(b)
				want := (b < ' ' || b == 0x7f) && b != '\t'
				if got, found := findControl(text); found != want || found && got != byte(b) {
					t.Fatalf("%q: %q, %v", text, got, found)
				}
			}
		}
	}
}

func BenchmarkChecker(b *testing.B) {
	text := []byte("POST /write?db=telegraf&precision=ns HTTP/1.1\r\nHost: tickmesh.example:6182\r\nUser-Agent: Telegraf/1.34.0 Go/1.24.1\r\n" +
		"Authorization: Token 0123456789abcdef0123456789abcdef\r\nContent-Type: text/plain; charset=utf-8\r\nAccept-Encoding: gzip\r\nContent-Length: 10\r\n\r\n0123456789")
	c := NewChecker(16 << 10)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if c.Check(text) != len(text) {
			b.Fatal(c.Err())
		}
	}
}
