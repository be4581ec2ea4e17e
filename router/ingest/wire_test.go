package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
)

// What is no HTTP as RFC 9112 has it is refused at once, on the HTTP port, on the put port
// that takes HTTP too, and within TLS; the connection ends, and nothing behind the request is
// served. api/http1 has the table of all that is refused.
func TestStrictHTTP(t *testing.T) {
	const line, smuggled = "m value=1 1700000000", "POST /write HTTP/1.1\r\nHost: h\r\nContent-Length: 25\r\n\r\nsmuggled value=1 17000000"
	plain, secured := start(t, nil), startSecured(t, nil)
	for _, c := range []struct {
		section, text string
		status        int
	}{
		{"9112 6.1", "POST /write HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, 400},
		{"9112 6.1", "POST /write HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 20\r\n\r\n14\r\n" + line + "\r\n0\r\n\r\n" + smuggled, 400},
		{"9112 6.1", "POST /write HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + smuggled, 501},
		{"9112 6.3", "POST /write HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\nContent-Length: 21\r\n\r\n" + line + smuggled, 400},
		{"9112 2.3", "POST /write HTTP/9.9\r\nHost: h\r\nContent-Length: 20\r\n\r\n" + line + smuggled, 505},
		{"9112 5.2", "POST /write HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\nA: b\r\n c\r\n\r\n" + line + smuggled, 400},
		{"9112 5.1", "POST /write HTTP/1.1\r\nHost: h\r\nContent-Length : 20\r\n\r\n" + line + smuggled, 400},
		{"9112 2.2", "POST /write HTTP/1.1\nHost: h\nContent-Length: 20\n\n" + line + smuggled, 400},
		{"9112 2.2", "POST /write HTTP/1.1\r\nHost: h\r\nA: b\rContent-Length: 20\r\n\r\n" + line + smuggled, 400},
		{"9112 3.2", "POST /write HTTP/1.1\r\nContent-Length: 20\r\n\r\n" + line + smuggled, 400},
		{"9112 3.2", "POST /write HTTP/1.1\r\nHost: h\r\nHost: h\r\nContent-Length: 20\r\n\r\n" + line + smuggled, 400},
		{"9112 7.1", "POST /write HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n14\n" + line + "\r\n0\r\n\r\n" + smuggled, 400},
		{"9112 7.1", "POST /write HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n13\r\n" + line + "\r\n0\r\n\r\n" + smuggled, 400},
		{"9112 7.1.1", "POST /write HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n14;\x01\r\n" + line + "\r\n0\r\n\r\n" + smuggled, 400},
	} {
		for name, connection := range map[string]net.Conn{
			"http": dial(t, plain.Addresses().HTTP), "put": dial(t, plain.Addresses().Put), "tls": secured.dial(t, secured.Addresses().HTTP),
		} {
			answer, err := sendAll(connection, "GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"+c.text)
			from := bufio.NewReader(bytes.NewReader(answer))
			if first, _ := readAnswer(t, from); first.StatusCode != http.StatusNoContent {
				t.Errorf("%s, %s: the request before is answered %d", c.section, name, first.StatusCode)
			}
			second, body := readAnswer(t, from)
			if second.StatusCode != c.status || !second.Close || from.Buffered() > 0 || err != nil {
				t.Errorf("%s, %s: %q is answered %d %s, close %v, %d bytes behind it, %v, want %d", c.section, name, c.text, second.StatusCode, body, second.Close, from.Buffered(), err, c.status)
			}
		}
	}
	equalLines(t, "stored", plain.stored(), nil)
	equalLines(t, "stored over TLS", secured.stored(), nil)
}

// sendAll sends text, closes the sending side, and reads to the end.
func sendAll(c net.Conn, text string) ([]byte, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return nil, err
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	return io.ReadAll(c)
}

// A write that is cut anywhere is never answered with success and stores nothing, whatever
// dialect and framing it has.
func TestCutWrites(t *testing.T) {
	const line = "m,a=b value=17 1700000000\n"
	chunked := func(target, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x;x=y\r\n%s\r\n0\r\nTrailer: x\r\n\r\n", target, len(body)/2, body[:len(body)/2], len(body)-len(body)/2, body[len(body)/2:])
	}
	for name, whole := range map[string]string{
		"length": request("/write?precision=s", line), "chunked": chunked("/write?precision=s", line),
		"put": request("/api/put", "put m 1700000000 17 a=b\n"), "chunked put": chunked("/api/put", "put m 1700000000 17 a=b\n"),
		"remote write": request("/api/v1/write", block(series1([]string{"__name__", "m", "a", "b"}, sample{17, 1_700_000_000_000}))),
		"gzip":         request("/write?precision=s", gzipped(line), "Content-Encoding: gzip"),
	} {
		r := start(t, nil)
		for n := 1; n < len(whole); n++ {
			answer, err := sendAll(dial(t, r.Addresses().HTTP), whole[:n])
			if bytes.Contains(answer, []byte(" 204 ")) || bytes.Contains(answer, []byte(" 200 ")) || err != nil {
				t.Fatalf("%s, cut behind %q: %q, %v", name, whole[:n], answer, err)
			}
		}
		if stored := r.stored(); len(stored) > 0 {
			t.Errorf("%s: of what was cut %q is stored", name, stored)
		}
		if answer, err := sendAll(dial(t, r.Addresses().HTTP), whole); err != nil || !bytes.Contains(answer, []byte(" 204 ")) {
			t.Errorf("%s: the whole: %q, %v", name, answer, err)
		}
		equalLines(t, name, r.stored(), []string{"m{a=b} 1700000000000 17"})
	}
}

// The end of a connection is what the client asks for, in whatever words (RFC 9112, 9.3).
func TestConnectionOptions(t *testing.T) {
	r := start(t, nil)
	for options, closes := range map[string]bool{"close": true, "Close": true, "keep-alive, CLOSE": true, "keep-alive": false, "closed": false, "TE, x": false} {
		answer, _ := r.post(t, "GET /ping HTTP/1.1\r\nHost: h\r\nConnection: "+options+"\r\n\r\n")
		if answer.Close != closes {
			t.Errorf("Connection: %s: close %v, want %v", options, answer.Close, closes)
		}
	}
}

// A compressed body that ends too early within a request that is whole is refused.
func TestCutCompression(t *testing.T) {
	r := start(t, nil)
	const line = "m,a=b value=17 1700000000\n"
	zipped := gzipped(line)
	for n := range len(zipped) {
		if answer, body := r.post(t, request("/write", zipped[:n], "Content-Encoding: gzip")); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%d bytes of gzip: %d %s", n, answer.StatusCode, body)
		}
	}
	packed := string(snappy.Encode(nil, []byte(line)))
	for n := range len(packed) {
		if answer, body := r.post(t, request("/write", packed[:n], "Content-Encoding: snappy")); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%d bytes of snappy: %d %s", n, answer.StatusCode, body)
		}
	}
	equalLines(t, "stored", r.stored(), nil)
}

// What comes behind a body changes nothing of its request, and the next request is served.
func TestTrailersAreLeftOut(t *testing.T) {
	var seen []string
	r := withOther(t, func(_ http.ResponseWriter, q *http.Request) {
		seen = append(seen, q.Header.Get("X-Scope-Orgid")+q.Header.Get("Origin"))
	})
	c := dial(t, r.Addresses().HTTP)
	from := bufio.NewReader(c)
	for _, target := range []string{"/write?precision=s", "/api/query", "/ping"} {
		send(t, c, "POST "+target+" HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n14\r\nm value=1 1700000000\r\n0\r\nX-Scope-OrgID: other\r\nOrigin: http://h\r\n\r\n")
		answer, body := readAnswer(t, from)
		if answer.Close != (target == "/ping") { // which reads no body
			t.Errorf("%s: %d %s, close %v", target, answer.StatusCode, body, answer.Close)
		}
	}
	if len(seen) != 1 || seen[0] != "" {
		t.Errorf("a handler sees %q", seen)
	}
	equalLines(t, "stored", r.stored(), []string{"m{} 1700000000000 1"})
}

// A body that nobody reads is not taken for the next request.
func TestUnreadBodies(t *testing.T) {
	r := start(t, nil)
	const inside = "POST /write HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\nm value=1 1700000000"
	for _, target := range []string{"/ping", "/health", "/nowhere", "/write", "/api/v2/write", "/healthz"} {
		for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
			for _, framed := range []string{
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inside), inside),
				fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inside), inside),
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s%s", 20_000+len(inside), strings.Repeat(" ", 20_000), inside),
			} {
				answer, err := sendAll(dial(t, r.Addresses().HTTP), method+" "+target+" HTTP/1.1\r\nHost: h\r\n"+framed)
				if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || bytes.Count(answer, []byte("HTTP/1.1 ")) != 1 {
					t.Errorf("%s %s: %q, %v", method, target, answer, err)
				}
			}
		}
	}
	equalLines(t, "stored", r.stored(), nil)
}
