package process

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// An answer in part: with a node gone that had the only copy of its shards, a query fails,
// and one that accepts a partial answer is answered and says what is missing.
func TestPartialAnswers(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.flags = append(c.flags, "--replication", "1")
	for i := range 3 {
		c.startNode(fmt.Sprintf("n%d", i+1))
	}
	r := c.startRouter("--initial-nodes", "3")
	c.awaitCopies(r)
	writePoints(t, r, 0, 64)
	query := func(parameters string) (status int, missing, body string) {
		response, err := http.Get(r.url("/api/query?start=1699990000&end=1700010000&m=count:cpu" + parameters))
		if err != nil {
			t.Error(err)
			return 0, "", ""
		}
		status, body = answerOf(t, response)
		return status, response.Header.Get("X-Tickmesh-Missing-Shards"), body
	}
	if status, missing, body := query("&partial=true&stale_ms=60000"); status != http.StatusOK || missing != "" {
		t.Errorf("of the whole cluster: %d %q %s", status, missing, body)
	}
	_ = c.nodes[1].cmd.Process.Kill()
	<-c.nodes[1].ended
	var whole int
	var asked sync.WaitGroup
	asked.Go(func() { whole, _, _ = query("") })
	status, missing, body := query("&partial=true")
	if status != http.StatusOK || missing == "" || strings.Count(missing, ",") >= testClusterShards-1 {
		t.Errorf("without a node: %d %q %s", status, missing, body)
	}
	if asked.Wait(); whole != http.StatusServiceUnavailable {
		t.Errorf("a whole answer without a node: %d", whole)
	}
}

// A cluster that takes no more new series this second asks clients to come again, as a
// single node does: 503, never 400, on which clients throw points away.
func TestSeriesRateOfCluster(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--nodes", "3", "--replication", "2", "--shards", "8", "--series-per-second-max", "20")
	var body strings.Builder
	const count = 2000
	for i := range count {
		fmt.Fprintf(&body, "m,n=%d value=%d 1700000000000000000\n", i, i)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url("/write"), strings.NewReader(body.String()))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	status, text := answerOf(t, response)
	if status != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" || !strings.Contains(text, "--series-per-second-max") {
		t.Errorf("%d %v %s", status, response.Header, text)
	}
	waitFor(t, "the same point, when its turn has come", func() bool {
		status, text := post(t, s.url("/write"), "other value=1 1700000000000000000")
		if status != http.StatusNoContent && status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", status, text)
		}
		return status == http.StatusNoContent
	})
}
