package process

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// request makes a request that names databases, and returns the answer.
func request(t *testing.T, method, address, databases string, body io.Reader) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	if databases != "" {
		r.Header.Set("X-Scope-OrgID", databases)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, response)
}

// remoteWrite sends what one of a pair of Prometheus has scraped of a target, which is up, at a time.
func remoteWrite(t *testing.T, s *testServer, databases, replica string, at time.Time, value float64) (int, string) {
	t.Helper()
	message, err := (&prompb.WriteRequest{
		Timeseries: []prompb.TimeSeries{{
			Labels:  []prompb.Label{{Name: "__name__", Value: "requests_total"}, {Name: "instance", Value: "i"}, {Name: "replica", Value: replica}},
			Samples: []prompb.Sample{{Timestamp: at.UnixMilli(), Value: value}},
		}},
		Metadata: []prompb.MetricMetadata{{Type: prompb.MetricMetadata_COUNTER, MetricFamilyName: "requests_total", Help: "What came."}},
	}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return request(t, http.MethodPost, s.url("/api/v1/write"), databases, bytes.NewReader(snappy.Encode(nil, message)))
}

// TestPairs: in a cluster, what a pair of Prometheus sends through two routers is counted once, in several databases at
// once, too; and a router that starts knows what metrics mean that another one heard.
func TestPairs(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for i := range 2 {
		c.startNode(fmt.Sprint("n", i))
	}
	flags := []string{"--initial-nodes", "2", "--tenant-federation", "--replica-label", "replica", "--dedup-interval", "15s"}
	first, second := c.startRouter(flags...), c.startRouter(flags...)
	c.awaitCopies(first)
	c.awaitCopies(second)
	begin := time.Unix(1_700_000_010, 0) // a multiple of 15 s
	for n := range 20 {
		for _, database := range []string{"a", "b"} {
			for replica, r := range []*testServer{first, second} {
				at := begin.Add(time.Duration(15*n+2+7*replica) * time.Second)
				if status, text := remoteWrite(t, r, database, fmt.Sprint(replica), at, float64(10*n+replica)); status != http.StatusNoContent {
					t.Fatalf("%d %s", status, text)
				}
			}
		}
	}
	end := begin.Add(300 * time.Second).Unix()
	ask := func(r *testServer, databases, expression string) string {
		_, text := request(t, http.MethodGet, r.url(fmt.Sprintf("/api/v1/query?time=%d&query=%s", end, url.QueryEscape(expression))), databases, nil)
		return text
	}
	for _, r := range []*testServer{first, second} {
		for expression, want := range map[string]string{
			"count_over_time(requests_total[1m])":               `[{"metric":{"__tenant_id__":"a","instance":"i"},"value":[%d,"4"]},{"metric":{"__tenant_id__":"b","instance":"i"},"value":[%d,"4"]}]`,
			"sum(requests_total)":                               `[{"metric":{},"value":[%d,"382"]}]`,
			`sum(delta(requests_total{__tenant_id__="b"}[1m]))`: `[{"metric":{},"value":[%d,"40"]}]`,
		} {
			want = strings.ReplaceAll(want, "%d", fmt.Sprint(end))
			if text := ask(r, "a|b", expression); !strings.Contains(text, want) {
				t.Errorf("%s: %s, want %s", expression, text, want)
			}
		}
	}
	if status, text := remoteWrite(t, first, "a|b", "0", begin, 0); status != http.StatusBadRequest || !strings.Contains(text, "several") {
		t.Errorf("a write to several databases: %d %s", status, text)
	}
	for _, path := range []string{"/query?q=SHOW+MEASUREMENTS", "/api/query?start=0&m=sum:requests_total", "/api/v1/rules", "/api/v1/status/tsdb"} {
		if status, text := request(t, http.MethodGet, first.url(path), "a|b", nil); status != http.StatusBadRequest || !strings.Contains(text, "several") {
			t.Errorf("%s of several databases: %d %s", path, status, text)
		}
	}

	for _, r := range []*testServer{first, second} {
		r.signal(syscall.SIGTERM)
		if code := r.wait().ExitCode(); code != 0 {
			t.Errorf("the router ended with code %d", code)
		}
	}
	third := c.startRouter(flags...)
	c.awaitCopies(third)
	waitFor(t, "what metrics mean", func() bool {
		_, text := request(t, http.MethodGet, third.url("/api/v1/metadata"), "a|b", nil)
		return strings.Contains(text, `"requests_total":[{"type":"counter","unit":"","help":"What came."}]`)
	})
}
