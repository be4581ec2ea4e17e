package ingest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// What unmodified clients send, byte for byte, and what they look at.

// TCollector says version, waits for anything, then sends blindly.
func TestClientTCollector(t *testing.T) {
	r := start(t, nil)
	c := dial(t, r.Addresses().Put)
	for round := range 2 {
		send(t, c, "version\n")
		answer := make([]byte, 4096)
		if n, err := c.Read(answer); err != nil || n == 0 {
			t.Fatal(n, err)
		}
		send(t, c, fmt.Sprintf("put proc.loadavg.1min %d 0.36 host=web01\nput iostat.disk.read %d 12 host=web01 dev=sda\n", 1_700_000_000+round, 1_700_000_000+round))
	}
	_ = c.Close()
	eventually(t, "all points stored", func() bool { return r.total() == 4 })

	// Its HTTP mode: urllib, Basic auth, details.
	response, body := r.post(t, request("/api/put?details",
		`[{"timestamp": 1700000000, "metric": "proc.loadavg.5min", "value": 0.36, "tags": {"host": "web01"}}]`,
		"Accept-Encoding: identity", "User-Agent: Python-urllib/3.11", "Content-type: application/json", "Authorization: Basic dTpw", "Connection: close"))
	if response.StatusCode != 200 || body != `{"success":1,"failed":0,"errors":[]}` {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

// Telegraf's outputs.influxdb creates the database, which /query answers, then posts gzip
// chunked.
func TestClientTelegrafInflux1(t *testing.T) {
	const created = `{"results":[{"statement_id":0}]}` + "\n"
	r := withOther(t, func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, created) })
	c := dial(t, r.Addresses().HTTP)
	from := bufio.NewReader(c)
	send(t, c, request("/query", `q=CREATE+DATABASE+%22telegraf%22`,
		"User-Agent: Telegraf/1.34.0 Go/1.24.1", "Content-Type: application/x-www-form-urlencoded", "Accept-Encoding: gzip"))
	if response, body := readAnswer(t, from); response.StatusCode != 200 || body != created {
		t.Fatalf("%d %s", response.StatusCode, body)
	}
	z := gzipped("cpu,cpu=cpu0,host=a usage_idle=98.5,usage_user=1i 1700000000000000000\nsystem,host=a uptime_format=\"1 day\" 1700000000000000000\n")
	send(t, c, fmt.Sprintf("POST /write?consistency=any&db=telegraf HTTP/1.1\r\nHost: x:8086\r\nUser-Agent: Telegraf/1.34.0\r\n"+
		"Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\nContent-Type: text/plain; charset=utf-8\r\nAccept-Encoding: gzip\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(z), z))
	if response, body := readAnswer(t, from); response.StatusCode != 204 {
		t.Fatalf("%d %s", response.StatusCode, body)
	}
	equalLines(t, "stored", r.stored(), []string{
		"telegraf/cpu{_field=usage_idle,cpu=cpu0,host=a} 1700000000000 98.5",
		"telegraf/cpu{_field=usage_user,cpu=cpu0,host=a} 1700000000000 1",
	})
}

// Telegraf's outputs.opentsdb over HTTP: gzip JSON, values as text or numbers.
func TestClientTelegrafOpenTSDB(t *testing.T) {
	r := start(t, nil)
	z := gzipped(`[{"metric":"cpu_usage_idle","timestamp":1700000000,"value":98.5,"tags":{"host":"a"}},{"metric":"cpu_n","timestamp":1700000000,"value":"3","tags":{"host":"a"}}]`)
	response, body := r.post(t, request("/api/put", z, "Content-Type: application/json", "Content-Encoding: gzip", "User-Agent: Go-http-client/1.1"))
	if response.StatusCode != 204 {
		t.Fatalf("%d %s", response.StatusCode, body)
	}
	equalLines(t, "stored", r.stored(), []string{"cpu_usage_idle{host=a} 1700000000000 98.5", "cpu_n{host=a} 1700000000000 3"})
}

// Telegraf's outputs.influxdb_v2.
func TestClientTelegrafInflux2(t *testing.T) {
	r := start(t, nil)
	response, body := r.post(t, request("/api/v2/write?bucket=b&org=o&precision=ns", gzipped("m,host=a v=1 1700000000000000000\n"),
		"Authorization: Token secret", "Content-Encoding: gzip", "Content-Type: text/plain; charset=utf-8"))
	if response.StatusCode != 204 {
		t.Fatalf("%d %s", response.StatusCode, body)
	}
	equalLines(t, "stored", r.stored(), []string{"b/m{_field=v,host=a} 1700000000000 1"})
}

// curl -d posts JSON as a form; with a body over 1 MB it expects a 100 first.
func TestClientCurl(t *testing.T) {
	r := start(t, nil)
	response, body := r.post(t, request("/api/put?summary", onePoint, "User-Agent: curl/7.88.1", "Accept: */*", "Content-Type: application/x-www-form-urlencoded"))
	if response.StatusCode != 200 || body != `{"success":1,"failed":0}` {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	large := "[" + strings.Repeat(onePoint+",", 20_000) + onePoint + "]"
	c := dial(t, r.Addresses().HTTP)
	from := bufio.NewReader(c)
	send(t, c, fmt.Sprintf("POST /api/put HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nContent-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\n", len(large)))
	if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = from.ReadString('\n')
	send(t, c, large)
	if response, body := readAnswer(t, from); response.StatusCode != 204 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

// Java's URLConnection: a form, and the last header without a value's blank.
func TestClientJava(t *testing.T) {
	r := start(t, nil)
	response, body := r.post(t, fmt.Sprintf("POST /api/put HTTP/1.1\r\nUser-Agent: Java/17.0.9\r\nHost: x\r\n"+
		"Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\nConnection: keep-alive\r\n"+
		"Content-type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(onePoint), onePoint))
	if response.StatusCode != 204 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

// Whatever a request holds, it gets one of the known answers, nothing stays in
// flight and the frames are sound.
func FuzzHTTPWrite(f *testing.F) {
	targets := []string{"/api/put", "/write", "/api/v2/write", "/api/write", "/api/v1/write", "/query", "/ping", "/health", "/x"}
	for i, target := range targets {
		f.Add(uint8(i), uint8(0), "", "", onePoint)
		f.Add(uint8(i), uint8(0), "precision=ms&db=d&bucket=b/r&q=CREATE+DATABASE+x&details&sync_timeout=100", "", "m,a=b c=1,d=\"e\" 1\nput m 1 1 a=b")
		f.Add(uint8(i), uint8(0), "summary", "gzip", gzipped(target))
		f.Add(uint8(i), uint8(1), "", "snappy", block(series1([]string{"__name__", "x"}, sample{1, 1})))
	}
	m := newMemory(testShards)
	s, err := New(Options{Writer: m, Resolver: m, Shards: testShards})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target, contentType uint8, query, encoding, body string) {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.SetRequestURI(targets[int(target)%len(targets)] + "?" + query)
		if encoding != "" {
			ctx.Request.Header.Set("Content-Encoding", encoding)
		}
		if contentType == 1 {
			ctx.Request.Header.SetContentType("application/x-protobuf")
		}
		ctx.Request.SetBodyStream(bytes.NewReader([]byte(body)), len(body))
		s.front.serve(&ctx)
		switch ctx.Response.StatusCode() {
		case 200, 204, 400, 404, 405, 413, 415:
		default:
			t.Fatalf("status %d: %s", ctx.Response.StatusCode(), ctx.Response.Body())
		}
		if used := s.budgets.Writes.Stats().Used; used != 0 {
			t.Fatalf("%d bytes still in flight", used)
		}
		if len(m.bad) > 0 {
			t.Fatal(m.bad)
		}
		m.samples = map[string]map[int64]float64{}
	})
}
