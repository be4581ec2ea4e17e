package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

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
	if status != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" || !strings.Contains(text, "too many new series a second") {
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
