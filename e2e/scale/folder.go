package scale

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// Empty is what a server of the real program takes that holds empty shards.
type Empty struct {
	Nodes, Shards int
	Start         time.Duration // until it serves
	CPU           time.Duration // of processors, until then
	RSSBytes      int64
	Files         int
	Goroutines    int
	DiskBytes     int64
	RestCPU       float64 // of one processor, in a few seconds in which nothing is asked
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// restTime is for how long a server is watched that is asked for nothing, once it has settled.
const restTime = 5 * time.Second

// MeasureEmpty starts a server of so many nodes in one process and looks at it.
func MeasureEmpty(ctx context.Context, binary, dir string, nodes, shards int) (e Empty, err error) {
	e = Empty{Nodes: nodes, Shards: shards}
	addresses, err := harness.NewStandaloneAddresses()
	if err != nil {
		return e, err
	}
	data := filepath.Join(dir, fmt.Sprintf("empty-%d-%d", nodes, shards))
	flags := []string{"--shards", strconv.Itoa(shards)}
	if nodes > 1 {
		flags = append(flags, "--nodes", strconv.Itoa(nodes), "--replication", strconv.Itoa(zones))
	}
	began := time.Now()
	server, err := harness.StartStandalone(ctx, harness.StandaloneOptions{Binary: binary, DataDir: data, Extra: flags, ReadyTimeout: 5 * time.Minute}, addresses)
	if err != nil {
		return e, err
	}
	defer server.Kill()
	e.Start = time.Since(began)
	ready, err := server.Usage()
	if err != nil {
		return e, err
	}
	e.CPU = ready.CPU
	const settleTime = 10 * time.Second // elections, first checkpoints, hibernation
	if !pause(ctx, settleTime) {
		return e, ctx.Err()
	}
	settled, err := server.Usage()
	if err != nil {
		return e, err
	}
	if !pause(ctx, restTime) {
		return e, ctx.Err()
	}
	rested, err := server.Usage()
	if err != nil {
		return e, err
	}
	e.RSSBytes, e.RestCPU = rested.RSSBytes, (rested.CPU-settled.CPU).Seconds()/restTime.Seconds()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", server.PID()))
	if err != nil {
		return e, err
	}
	e.Files = len(open)
	if e.DiskBytes, err = harness.DiskBytes(data); err != nil {
		return e, err
	}
	e.Goroutines, err = goroutinesOf(ctx, server)
	return e, err
}

func goroutinesOf(ctx context.Context, server *harness.Standalone) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.HTTPAddr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	found := goroutines.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no go_goroutines in %d bytes of metrics", len(text))
	}
	return strconv.Atoi(string(found[1]))
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
