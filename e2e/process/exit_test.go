package process

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const leftOpen = "the data folder was not closed in time"

// hangs is a failpoint of the checkpoint that every data folder is closed with.
const hangs = "--failpoints=checkpoint/before-publish=hang"

// A shutdown that hangs ends in its time, and nothing that was acknowledged is lost.
func TestShutdownThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, dir, "--shutdown-timeout=1ms", hangs)
	if status, body := post(t, s.url("/write"), "cpu value=2 1700000000000000000"); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	s.signal(syscall.SIGTERM)
	if state := s.wait(); state.ExitCode() != 1 {
		t.Error(state)
	}
	s.waitLog(leftOpen, nil)
	again := startServer(t, dir)
	if _, body := get(t, again.url("/api/query?start=1699999999&end=1700000001&m=sum:cpu")); !strings.Contains(body, `"dps":{"1700000000":2}`) {
		t.Error(body)
	}
}

// So does that of a node, which also hands over what it leads.
func TestNodeShutdownThatHangs(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	node := c.startNode("n1", "--replication", "1", "--shutdown-timeout=1ms", hangs)
	router := c.startRouter("--initial-nodes", "1", "--replication", "1")
	waitFor(t, "a write", func() bool {
		status, _ := post(t, router.url("/write"), "cpu value=2 1700000000000000000")
		return status == http.StatusNoContent
	})
	node.signal(os.Interrupt)
	if state := node.wait(); state.ExitCode() != 1 {
		t.Error(state)
	}
	node.waitLog(leftOpen, nil)
	c.startNode("n1", "--replication", "1")
	waitFor(t, "the sample", func() bool {
		_, body := get(t, router.url("/api/query?start=1699999999&end=1700000001&m=sum:cpu"))
		return strings.Contains(body, `"dps":{"1700000000":2}`)
	})
}

// A cluster in one process ends cleanly while wide queries run that are given up.
func TestLocalClusterEndsDuringQueries(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--nodes=3", "--shutdown-timeout=1ms")
	const series = 20_000
	for from := 0; from < series; from += 1000 {
		var lines strings.Builder
		for i := from; i < from+1000; i++ {
			fmt.Fprintf(&lines, "wide,host=h%d,rack=r%d value=%d 1700000000000000000\n", i, i%100, i)
		}
		waitFor(t, "a write", func() bool {
			status, _ := post(t, s.url("/write"), lines.String())
			return status == http.StatusNoContent
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked sync.WaitGroup
	query := "label_replace(wide,\"a\",\"$1$2\",\"host\",\"(.*)(.*)\")"
	for range 6 {
		query = "label_replace(" + query + ",\"b\",\"$1$2\",\"host\",\"(.*)(.*)\")"
	}
	address := s.url("/api/v1/query_range?start=1700000000&end=1700003600&step=10&query=") + strings.NewReplacer("+", "%2B", " ", "%20").Replace(query)
	for range 8 {
		asked.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if response, err := http.DefaultClient.Do(r); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	waitFor(t, "running queries", func() bool {
		_, body := get(t, s.url("/metrics"))
		return strings.Contains(body, "tickmesh_query_running 8") || strings.Contains(body, "tickmesh_queries_running 8")
	})
	s.signal(syscall.SIGTERM)
	began := time.Now()
	if state := s.wait(); state.ExitCode() != 0 {
		t.Errorf("%v\n%v", state, s.log[max(0, len(s.log)-5):])
	}
	t.Logf("it took %v", time.Since(began))
	cancel()
	asked.Wait()
}
