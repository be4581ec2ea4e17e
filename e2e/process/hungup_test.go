package process

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// running matches the metrics of admission control that are not 0 while there is work.
var running = regexp.MustCompile(`(?m)^(tickmesh_query_(?:running|waiting)\S*) (\S+)$`)

// TestHungUpQueriesEnd: clients that hang up in the midst of heavy queries leave no work behind, and
// hold up no reader meanwhile.
func TestHungUpQueriesEnd(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--pprof")
	const series, samples = 20_000, 20
	for from := 0; from < series; from += 1000 {
		var lines strings.Builder
		for i := from; i < from+1000; i++ {
			for at := range samples {
				fmt.Fprintf(&lines, "wide,host=h%d,rack=r%d value=%d %d\n", i, i%100, i, (1_700_000_000+int64(at)*180)*1_000_000_000)
			}
		}
		waitFor(t, "a write", func() bool {
			status, _ := post(t, s.url("/write"), lines.String())
			return status == http.StatusNoContent
		})
	}
	if status, _ := post(t, s.url("/write"), "calm value=7 1700000000000000000"); status != http.StatusNoContent {
		t.Fatal(status)
	}
	idle := func() (bool, string) {
		_, body := get(t, s.url("/metrics"))
		all := running.FindAllStringSubmatch(body, -1)
		if len(all) == 0 {
			t.Fatal("no metrics of admission control")
		}
		text := ""
		for _, m := range all {
			if m[2] != "0" {
				text += m[0] + "\n"
			}
		}
		return text == "", text
	}
	const span = "start=1700000000&end=1700003600&step=1"
	heavy := []string{
		"/api/v1/query_range?" + span + "&query=" + url.QueryEscape("wide"),
		"/api/v1/query_range?" + span + "&query=" + url.QueryEscape("sum by (rack) (rate(wide[10m]))"),
		"/api/v1/query_range?" + span + "&query=" + url.QueryEscape(`topk(5, wide * on (host, rack) wide) or quantile(0.9, wide)`),
		"/api/v1/query_range?" + span + "&query=" + url.QueryEscape(`label_replace(wide, "a", "$1$2", "host", "(.*)(.*)(.*)")`),
		"/api/v1/query_range?" + span + "&query=" + url.QueryEscape(`max_over_time(sum by (rack) (wide)[1h:1s])`),
		"/api/v1/query_range?" + span + "&query=" + url.QueryEscape(`count_values("v", wide)`),
		"/api/v1/query_range?" + span + "&query=" + url.QueryEscape(`sort_desc(wide offset 1m)`),
		"/query?db=default&epoch=ms&q=" + url.QueryEscape("SELECT mean(value) FROM wide WHERE time >= 1700000000s AND time < 1700003600s GROUP BY time(1s), host fill(previous)"),
		"/api/query?start=1700000000&end=1700003600&m=" + url.QueryEscape("sum:1s-avg-nan:wide{host=*}"),
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var reader sync.WaitGroup
	slowest, reads := time.Duration(0), 0
	reader.Go(func() {
		for ctx.Err() == nil {
			begin := time.Now()
			response, err := http.Get(s.url("/api/v1/query?query=calm&time=1700000000"))
			if err != nil {
				t.Error(err)
				return
			}
			if _, body := answerOf(t, response); !strings.Contains(body, `"7"`) {
				t.Errorf("a reader is answered %d %s", response.StatusCode, body)
				return
			}
			slowest, reads = max(slowest, time.Since(begin)), reads+1
		}
	})
	// hangUp asks all paths eight times each, and hangs up in the midst of something else each time.
	hangUp := func(round int, paths ...string) {
		var asked sync.WaitGroup
		for _, path := range paths {
			for n := range 8 {
				asked.Go(func() {
					conn, err := net.Dial("tcp", s.addr["http"])
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
					_ = conn.SetReadDeadline(time.Now().Add(time.Duration(round*8+n) * 40 * time.Millisecond))
					_, _ = bufio.NewReader(conn).ReadByte()
				})
			}
		}
		asked.Wait()
		last := time.Now()
		waitFor(t, "an idle server", func() bool { none, _ := idle(); return none })
		t.Logf("%d kinds of queries: all work had ended %v after the last hang-up", len(paths), time.Since(last).Round(time.Millisecond))
	}
	for round := range 3 {
		hangUp(round, heavy...)
	}
	for _, path := range heavy {
		hangUp(0, path)
	}
	stop()
	reader.Wait()
	t.Logf("%d reads, the slowest took %v", reads, slowest.Round(time.Millisecond))
	_, metrics := get(t, s.url("/metrics"))
	for _, dialect := range []string{"promql", "influxql", "opentsdb"} {
		counted := `tickmesh_query_ended_total{dialect="` + dialect + `",outcome=`
		if !strings.Contains(metrics, counted+`"canceled"`) || strings.Contains(metrics, counted+`"error"`) {
			t.Errorf("not in the midst of %s: %s", dialect, metrics)
		}
	}
	_, stacks := get(t, s.url("/debug/pprof/goroutine?debug=2"))
	for _, room := range []string{"tickmesh/router/query/", "prometheus/promql."} {
		if at := strings.Index(stacks, room); at >= 0 {
			t.Errorf("a goroutine is left: %s", stacks[max(0, at-1000):min(len(stacks), at+300)])
		}
	}
}
