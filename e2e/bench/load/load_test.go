package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The oracle is net/http's server, which sends fixed lengths, chunks and nothing.
func TestRoundTripReadsWhatServersSend(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/chunks":
			for part := range 5 {
				fmt.Fprintf(w, "%d%s", part, long)
				w.(http.Flusher).Flush()
			}
		case "/bad":
			http.Error(w, "bad line", http.StatusBadRequest)
		default:
			fmt.Fprintf(w, "%s %s", r.Method, body)
		}
	}))
	defer server.Close()
	conn, err := Dial(t.Context(), server.Listener.Addr().String(), 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	chunks := ""
	for part := range 5 {
		chunks += fmt.Sprint(part) + long
	}
	for _, test := range []struct {
		request string
		status  int
		body    string
	}{
		{string(AppendPost(nil, "h", "/", 3)) + "abc", 200, "POST abc"},
		{string(AppendGet(nil, "h", "/empty")), 204, ""},
		{string(AppendGet(nil, "h", "/chunks")), 200, chunks},
		{string(AppendGet(nil, "h", "/bad")), 400, "bad line\n"},
		{string(AppendGet(nil, "h", "/")), 200, "GET "},
	} {
		status, body, err := conn.RoundTrip([]byte(test.request))
		if err != nil || status != test.status || string(body) != test.body {
			t.Fatalf("%.30q: %d, %d bytes, %v; want %d, %d bytes", test.request, status, len(body), err, test.status, len(test.body))
		}
	}
}

func TestRoundTripRefusesGarbage(t *testing.T) {
	for _, answer := range []string{
		"", "HTTP", "nonsense\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		client, server := net.Pipe()
		go func() {
			_, _ = bufio.NewReader(server).ReadString('\n')
			_, _ = io.WriteString(server, answer)
			server.Close()
		}()
		conn := &Conn{Conn: client, reader: bufio.NewReader(client)}
		if status, body, err := conn.RoundTrip([]byte("GET /\n")); err == nil {
			t.Errorf("%q is taken as %d %q", answer, status, body)
		}
		client.Close()
	}
}

func TestRunsCountWhatTheServerSaw(t *testing.T) {
	var seen, failed atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodGet {
			fmt.Fprint(w, "{}")
			return
		}
		if n := seen.Add(int64(len(body))); n%7 == 0 {
			failed.Add(int64(len(body)))
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	feeds := make([]Feed, 5)
	for i := range feeds {
		n := 0
		feeds[i] = func() (Item, bool) {
			n++
			if n%10 == 0 {
				return Item{Text: AppendGet(nil, "h", "/q"), Read: true}, true
			}
			return Item{Text: append(AppendPost(nil, "h", "/w", 3), "abc"...), Points: 3}, n <= 100
		}
	}
	result, err := HTTP(context.Background(), Options{Address: server.Listener.Addr().String()}, feeds)
	if err != nil {
		t.Fatal(err)
	}
	if result.Reads != 50 || result.Points != seen.Load()-failed.Load() || result.Errors*3 != failed.Load() ||
		result.Points+3*result.Errors != 5*90*3 || result.Writes.TotalCount() != result.Requests {
		t.Fatalf("%+v, the server saw %d and refused %d", result, seen.Load(), failed.Load())
	}
}

func TestTCPWaitsForTheFence(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var received atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					if lines.Text() == "version" {
						_, _ = io.WriteString(conn, "1.0\n")
						continue
					}
					received.Add(1)
				}
			}()
		}
	}()
	feeds := make([]Feed, 8)
	for i := range feeds {
		n := 0
		feeds[i] = func() (Item, bool) {
			n++
			return Item{Text: []byte("put a\nput b\n"), Points: 2}, n <= 500
		}
	}
	result, err := TCP(context.Background(), Options{Address: listener.Addr().String(), Fence: "version\n"}, feeds)
	if err != nil {
		t.Fatal(err)
	}
	if received.Load() != 8000 || result.Points != 8000 || result.ConnectionPointsMin != 1000 || result.ConnectionPointsMax != 1000 {
		t.Fatalf("%d lines received at the fence, result %+v", received.Load(), result)
	}
}

// Each item is timed until the fence behind it is answered, and all is counted.
func TestTCPSyncWaitsForEachAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const late = 100 * time.Millisecond
	var received atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					if lines.Text() != "version" {
						received.Add(1)
						continue
					}
					if received.Load() == 20 {
						time.Sleep(late)
					}
					_, _ = io.WriteString(conn, "1.0\nof today\n")
				}
			}()
		}
	}()
	n := 0
	feed := func() (Item, bool) {
		n++
		return Item{Text: []byte("put a\nput b\n"), Points: 2}, n <= 50
	}
	result, err := TCPSync(t.Context(), Options{Address: listener.Addr().String(), Fence: "version\n", FenceLines: 2}, []Feed{feed})
	if err != nil {
		t.Fatal(err)
	}
	if received.Load() != 100 || result.Points != 100 || result.Requests != 50 || result.Writes.Max() < late.Microseconds()*9/10 || result.Gaps[0] < late {
		t.Fatalf("%d lines received, result %+v, the slowest took %d µs", received.Load(), result, result.Writes.Max())
	}
}

// Whatever a server sends, an answer is either whole or an error, and is bounded.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		conn := &Conn{Conn: sink{}, reader: bufio.NewReader(bytes.NewReader(answer))}
		status, body, err := conn.RoundTrip(nil)
		if err == nil && (status == 0 || len(body) > len(answer)) {
			t.Fatalf("%q is taken as %d and %d bytes", answer, status, len(body))
		}
	})
}

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error) { return len(p), nil }

// A late server makes requests late that were due meanwhile, and the gap shows it.
func TestPacedRequestsCountFromWhenTheyWereDue(t *testing.T) {
	const blocked = 200 * time.Millisecond
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 5 {
			time.Sleep(blocked)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	sent := 0
	feed := func() (Item, bool) {
		sent++
		return Item{Text: AppendPost(nil, "h", "/w", 0), Points: 1}, sent <= 40
	}
	result, err := HTTP(t.Context(), Options{Address: server.Listener.Addr().String(), Interval: 10 * time.Millisecond}, []Feed{feed})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Gaps) != 1 || result.Gaps[0] < blocked || result.Elapsed < 390*time.Millisecond {
		t.Fatalf("gaps %v, %s in all", result.Gaps, result.Elapsed)
	}
	// Ten more were due within the 200 ms: each waited a part of it. Timed from when
	// they were sent, only one of 40 would be late.
	if late := result.Writes.ValueAtQuantile(90); late < 80_000 {
		t.Fatalf("one of ten waited for %d µs, all as if the server had answered", late)
	}
}
