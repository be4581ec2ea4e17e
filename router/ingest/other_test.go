package ingest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// withOther starts a server with one handler for the paths that are no writes.
func withOther(t *testing.T, handler http.HandlerFunc) *running {
	t.Helper()
	return start(t, func(o *Options) {
		o.Other = handler
		o.Limits.OtherAnswerBytesHeld = 1000
		o.Limits.OtherBodyBytesMax = 5000
	})
}

func TestOtherSeesTheRequest(t *testing.T) {
	r := withOther(t, func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		w.Header()["X-Two"] = []string{"1", "2"}
		fmt.Fprintf(w, "%s %s path=%s m=%q host=%s type=%s length=%d body=%s err=%v proto=%s",
			q.Method, q.RequestURI, q.URL.Path, q.URL.Query()["m"], q.Host, q.Header.Get("content-type"), q.ContentLength, body, err, q.Proto)
	})
	response, body := r.post(t, "POST /api/query?m=a&m=b%20c HTTP/1.1\r\nHost: there:1\r\nCONTENT-type: text/x\r\nContent-Length: 3\r\n\r\nabc")
	want := `POST /api/query?m=a&m=b%20c path=/api/query m=["a" "b c"] host=there:1 type=text/x length=3 body=abc err=<nil> proto=HTTP/1.1`
	if body != want {
		t.Errorf("the handler saw\n%s\nwant\n%s", body, want)
	}
	if got := response.Header.Values("X-Two"); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("X-Two is %q", got)
	}
	if got := response.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("Content-Type is %q, want the sniffed one", got)
	}
}

func TestOtherForm(t *testing.T) {
	r := withOther(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, q.FormValue("query"), q.FormValue("x")) })
	if _, body := r.post(t, request("/api/v1/query?x=2", "query=1%2B1", "Content-Type: application/x-www-form-urlencoded")); body != "1+12" {
		t.Errorf("body is %q", body)
	}
}

func TestOtherStatusAndHead(t *testing.T) {
	r := withOther(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
			return
		}
		w.Header().Set("X-A", "1")
		fmt.Fprint(w, "text")
		w.Header().Set("X-B", "too late")
	})
	response, body := r.post(t, "GET /gone HTTP/1.1\r\nHost: x\r\n\r\n")
	if response.StatusCode != 410 || body != "" {
		t.Errorf("%d %q", response.StatusCode, body)
	}
	c := dial(t, r.Addresses().HTTP)
	send(t, c, "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodHead})
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 200 || response.ContentLength != 4 || response.Header.Get("X-A") != "1" || response.Header.Get("X-B") != "" {
		t.Errorf("HEAD: %d, length %d, %v %s", response.StatusCode, response.ContentLength, response.Header, body)
	}
	if got := r.metric(t, "tickmesh_ingest_http_requests_total", "code=410"); got != 1 {
		t.Errorf("%v answers 410 counted", got)
	}
}

// A flush reaches the client while the handler still works.
func TestOtherStreams(t *testing.T) {
	proceed := make(chan struct{})
	r := withOther(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "piece %d\n", i)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-proceed
		}
	})
	for _, version := range []string{"1.1", "1.0"} {
		c := dial(t, r.Addresses().HTTP)
		send(t, c, "GET /stream HTTP/"+version+"\r\nHost: x\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(response.Body)
		for i := range 3 {
			line, err := lines.ReadString('\n')
			if want := fmt.Sprintf("piece %d\n", i); err != nil || line != want {
				t.Fatalf("HTTP/%s: %q, %v, want %q", version, line, err, want)
			}
			proceed <- struct{}{}
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
			t.Errorf("HTTP/%s: the end is %q, %v", version, rest, err)
		}
	}
}

// Answers larger than what is held arrive whole, on a connection that goes on.
func TestOtherLargeAnswers(t *testing.T) {
	text := strings.Repeat("0123456789", 30_000)
	r := withOther(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	c := dial(t, r.Addresses().HTTP)
	from := bufio.NewReader(c)
	for range 3 {
		send(t, c, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, body := readAnswer(t, from); body != text {
			t.Fatalf("%d bytes, want %d", len(body), len(text))
		}
		send(t, c, request("/write?db=d&precision=s", "m value=1 1700000000"))
		if response, body := readAnswer(t, from); response.StatusCode != 204 {
			t.Fatalf("a write on the same connection: %d %s", response.StatusCode, body)
		}
	}
}

func TestOtherPipelined(t *testing.T) {
	r := withOther(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, q.URL.Path) })
	c := dial(t, r.Addresses().HTTP)
	send(t, c, "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n"+
		request("/write?db=d", "m value=1")+"GET /c HTTP/1.1\r\nHost: x\r\n\r\n")
	from := bufio.NewReader(c)
	for _, want := range []string{"/a", "/b", "", "/c"} {
		if _, body := readAnswer(t, from); body != want {
			t.Fatalf("body is %q, want %q", body, want)
		}
	}
}

// The request's context ends when the client goes, before and during a stream.
func TestOtherEndsWithItsClient(t *testing.T) {
	for _, flush := range []bool{false, true} {
		began, ended := make(chan struct{}), make(chan error, 1)
		r := withOther(t, func(w http.ResponseWriter, q *http.Request) {
			if flush {
				_ = http.NewResponseController(w).Flush()
			}
			close(began)
			select {
			case <-q.Context().Done():
				ended <- context.Cause(q.Context())
			case <-time.After(testTimeout):
				ended <- nil
			}
		})
		c := dial(t, r.Addresses().HTTP)
		send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		<-began
		_ = c.Close()
		if err := <-ended; err == nil {
			t.Errorf("flush %v: the context did not end", flush)
		}
	}
}

// A client that does not read stops its stream, and the time to send a piece is
// bounded.
func TestOtherWriteTimeout(t *testing.T) {
	ended := make(chan error, 1)
	r := start(t, func(o *Options) {
		o.Limits.HTTPAnswerTimeout = 50 * time.Millisecond
		o.Other = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			piece := make([]byte, 1<<20)
			for {
				if _, err := w.Write(piece); err != nil {
					ended <- err
					return
				}
			}
		})
	})
	c := dial(t, r.Addresses().HTTP)
	send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(testTimeout):
		t.Error("the handler was not told")
	}
}

func TestOtherPanics(t *testing.T) {
	r := withOther(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/stream" {
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		panic("a bug")
	})
	if response, body := r.post(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); response.StatusCode != 500 || !strings.Contains(body, `"code":500`) {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	c := dial(t, r.Addresses().HTTP)
	send(t, c, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("a stream that was given up looks whole")
	}
}

func TestOtherBodyLimit(t *testing.T) {
	r := withOther(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	response, body := r.post(t, request("/api/query", strings.Repeat("x", 5001)))
	if response.StatusCode != 413 || !strings.HasPrefix(body, `{"error":{"code":413,`) {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}
