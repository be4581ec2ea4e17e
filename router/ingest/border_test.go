package ingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// borderRequest is a request and the answer that it has to get.
type borderRequest struct {
	text, body string
	status     int
	last       bool // the connection ends behind its answer
}

// drawBorderRequest draws a request of either server.
func drawBorderRequest(t *rapid.T, n int) borderRequest {
	body := strings.Repeat("b", rapid.SampledFrom([]int{0, 1, 3000, 20_000, 70_000}).Draw(t, "body"))
	target := rapid.SampledFrom([]string{"/api/query", "/query", "/x", "/writes", "/db/d/y", "/%77rite/x", "http://127.0.0.1/z"}).Draw(t, "target")
	status, want := http.StatusOK, fmt.Sprintf("%s#%d %d", strings.TrimPrefix(strings.TrimPrefix(target, "/db/d"), "http://127.0.0.1"), n, len(body))
	want = strings.Replace(want, "%77", "w", 1)
	target += fmt.Sprintf("?n=%d", n)
	if rapid.Bool().Draw(t, "points") {
		body = strings.Repeat(fmt.Sprintf("m,n=%d value=1 %d\n", n, 1_700_000_000+n), 1+len(body)/40)
		target = rapid.SampledFrom([]string{"/write?db=d", "/db/d/write?", "/%77rite?db=d", "/x//../write?db=d", "/x/../write?db=d", "http://127.0.0.1/write?db=d"}).
			Draw(t, "target of points") + "&precision=s"
		status, want = http.StatusNoContent, ""
	}
	r := borderRequest{status: status, body: want}
	header := "Host: 127.0.0.1\r\n"
	if r.last = rapid.IntRange(0, 20).Draw(t, "close") == 0; r.last {
		header += "Connection: close\r\n"
	}
	if rapid.Bool().Draw(t, "chunked") && body != "" {
		half := len(body) / 2
		text := fmt.Sprintf("%x\r\n%s\r\n0\r\nTrailer-X: y\r\n\r\n", len(body)-half, body[half:])
		if half > 0 {
			text = fmt.Sprintf("%x\r\n%s\r\n", half, body[:half]) + text
		}
		r.text = fmt.Sprintf("POST %s HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n%s", target, header, text)
		return r
	}
	r.text = fmt.Sprintf("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", target, header, len(body), body)
	return r
}

// Requests of both servers take turns on a connection, however they are cut into pieces: each is
// answered by its own, in their order.
func TestServersTakeTurns(t *testing.T) {
	echo := func(o *Options) {
		o.Limits.OtherAnswerBytesHeld = 16
		o.Other = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s#%s %d", r.URL.Path, r.URL.Query().Get("n"), len(body))
		})
	}
	plain, secure := start(t, echo), startSecured(t, echo)
	rapid.Check(t, func(rt *rapid.T) {
		var c net.Conn
		if rapid.Bool().Draw(rt, "TLS") {
			c = secure.dial(t, secure.Addresses().HTTP)
		} else {
			c = dial(t, plain.Addresses().HTTP)
		}
		defer c.Close()
		var all []borderRequest
		var text strings.Builder
		for n := range rapid.IntRange(1, 12).Draw(rt, "requests") {
			one := drawBorderRequest(rt, n)
			all = append(all, one)
			text.WriteString(one.text)
		}
		piece := rapid.SampledFrom([]int{7, 100, 4000, 1 << 20}).Draw(rt, "piece")
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for rest := text.String(); rest != ""; {
				next := rest[:min(piece, len(rest))]
				if _, err := io.WriteString(c, next); err != nil {
					return // the server has closed, as it was asked to
				}
				rest = rest[len(next):]
			}
		}()
		from := bufio.NewReader(c)
		for i, one := range all {
			response, err := http.ReadResponse(from, nil)
			if err != nil {
				rt.Fatalf("answer %d to %.80q: %v", i, one.text, err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != one.status || string(body) != one.body || response.Close != one.last {
				rt.Fatalf("answer %d to %.80q: %d %q, close %v, %v; want %d %q", i, one.text, response.StatusCode, body, response.Close, err, one.status, one.body)
			}
			if one.last {
				if _, err := from.ReadByte(); err == nil {
					rt.Fatalf("the connection goes on behind answer %d", i)
				}
				break
			}
		}
		_ = c.Close()
		<-sent
	})
}

// What is no request is told so behind a question, as behind points.
func TestRefusalsBehindQuestions(t *testing.T) {
	r := start(t, func(o *Options) {
		o.Limits.HTTPHeaderBytesMax, o.Limits.HTTPReadTimeout = 2000, 500*time.Millisecond
		o.Other = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "yes") })
	})
	question, write := "GET /q HTTP/1.1\r\nHost: x\r\n\r\n", request("/write?db=d", "m value=1")
	for before, status := range map[string]int{question: 200, write: 204} {
		for name, c := range map[string]struct {
			raw, says string
			status    int
		}{
			"no HTTP":        {"hello\r\n", "This is no HTTP request", 400},
			"no CR, twice":   {"hello\nhello\n", "", 400},
			"folded":         {"GET /q HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "This is no HTTP request", 400},
			"two lengths":    {"POST /q HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "RFC 9112", 400},
			"target":         {"GET /q%zz HTTP/1.1\r\nHost: x\r\n\r\n", "Bad request", 400},
			"large header":   {"GET /q HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: "+strings.Repeat("y", 500)+"\r\n", 20) + "\r\n", "Request headers too large", 431},
			"slow header":    {"GET /q HTTP/1.1\r\nHost:", "did not arrive", 503},
			"slow line":      {"GET /q", "did not arrive", 503},
			"slow body":      {"POST /q HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx", "", 503},
			"bad chunk":      {"POST /q HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", "RFC 9112", 400},
			"too large":      {"POST /q HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", "too large", 413},
			"asks and is so": {"POST /q HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n", "too large", 413},
		} {
			t.Run(fmt.Sprint(name, " behind ", status), func(t *testing.T) {
				to := dial(t, r.Addresses().HTTP)
				send(t, to, before+c.raw)
				from := bufio.NewReader(to)
				if response, body := readAnswer(t, from); response.StatusCode != status || response.Close {
					t.Errorf("the request before it: %d %s, close %v", response.StatusCode, body, response.Close)
				}
				response, body := readAnswer(t, from)
				if response.StatusCode != c.status || !strings.Contains(body, c.says) || response.Close == (name == "target") {
					t.Errorf("%d %s, close %v", response.StatusCode, body, response.Close)
				}
				if contentType := response.Header.Get("Content-Type"); contentType != contentJSON {
					t.Errorf("Content-Type is %q", contentType)
				}
			})
		}
	}
}

// A client that asks before it sends the body of a question is told to go on, and points may follow.
func TestQuestionsExpectContinue(t *testing.T) {
	r := start(t, func(o *Options) {
		o.Other = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	})
	c := dial(t, r.Addresses().HTTP)
	from := bufio.NewReader(c)
	for range 2 {
		send(t, c, "POST /q HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
		if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = from.ReadString('\n')
		send(t, c, "body")
		if response, text := readAnswer(t, from); response.StatusCode != 200 || text != "body" {
			t.Fatalf("%d %s", response.StatusCode, text)
		}
		send(t, c, request("/write?db=d", "m value=1"))
		if response, text := readAnswer(t, from); response.StatusCode != 204 {
			t.Fatalf("%d %s", response.StatusCode, text)
		}
	}
}

// A drain ends a connection behind the question that is being answered.
func TestDrainEndsQuestions(t *testing.T) {
	begun, proceed := make(chan struct{}), make(chan struct{})
	r := start(t, func(o *Options) {
		o.Other = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-proceed
			fmt.Fprint(w, "answer")
		})
	})
	idle, busy := dial(t, r.Addresses().HTTP), dial(t, r.Addresses().HTTP)
	send(t, idle, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
	fromIdle := bufio.NewReader(idle)
	readAnswer(t, fromIdle)
	send(t, busy, "GET /q HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	ended := r.shutdown(testTimeout)
	if _, err := fromIdle.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	close(proceed)
	if response, body := readAnswer(t, bufio.NewReader(busy)); body != "answer" || !response.Close {
		t.Errorf("%q, close %v", body, response.Close)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Old clients send an empty line behind a body: it is left out in front of a question, as in front of points.
func TestEmptyLineBeforeQuestion(t *testing.T) {
	r := start(t, func(o *Options) {
		o.Other = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "yes") })
	})
	for name, before := range map[string]string{
		"first": "", "behind points": request("/write?db=d", "m value=1"), "behind a question": "GET /q HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, r.Addresses().HTTP)
			from := bufio.NewReader(c)
			send(t, c, before+"\r\n")
			if before != "" {
				readAnswer(t, from)
			}
			send(t, c, "GET /q HTTP/1.1\r\nHost: x\r\n\r\n")
			if response, body := readAnswer(t, from); response.StatusCode != 200 || body != "yes" {
				t.Errorf("%d %s", response.StatusCode, body)
			}
		})
	}
}

// The database of a question is read from its path as it was sent, whatever else the path has.
func TestPathOfQuestionAsSent(t *testing.T) {
	r := start(t, func(o *Options) {
		o.Other = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, q.URL.Path) })
	})
	for target, want := range map[string]int{`/db/a%2Fb"/q`: 400, "/db/a%2Fb/q": 400, `/db/a/q"x`: 200, "/db/a/q\xc3\xa9": 200, `/db/a/q%2F"`: 400} {
		if response, body := r.post(t, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"); response.StatusCode != want {
			t.Errorf("%q: %d %s, want %d", target, response.StatusCode, body, want)
		}
	}
}
