package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// journalStart is the time of the journal's first sample, in seconds.
const journalStart = 1_600_000_000

// journal writes numbered samples to a door of the product for as long as a test goes
// on, and knows which of them were acknowledged. A sample of which that is not known is
// written again: it is the same sample.
type journal struct {
	client *http.Client
	door   string // URL
	stop   context.CancelFunc
	ended  chan struct{}
	mu     struct {
		sync.Mutex
		acknowledged int // samples 0 to this, without it
		failed       int // requests
		last         error
		pause        time.Duration // the longest between two acknowledgements
	}
}

// startJournal begins to write. The test's end stops it.
func startJournal(t *testing.T, c *http.Client, door string) *journal {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	j := &journal{client: c, door: door, stop: stop, ended: make(chan struct{})}
	go j.run(ctx)
	t.Cleanup(j.end)
	return j
}

func (j *journal) end() {
	j.stop()
	<-j.ended
}

func (j *journal) run(ctx context.Context) {
	defer close(j.ended)
	last := time.Now()
	for n := 0; ctx.Err() == nil; {
		line := fmt.Sprintf("journal value=%d %d\n", n, journalStart+n)
		err := postOnce(ctx, j.client, j.door+"/write?precision=s", line)
		j.mu.Lock()
		if err == nil {
			n++
			j.mu.acknowledged = n
			j.mu.pause = max(j.mu.pause, time.Since(last))
			last = time.Now()
		} else {
			j.mu.failed++
			j.mu.last = err
		}
		j.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond): // what is tested is not speed
		}
	}
}

// grows waits until so many more samples are acknowledged than now.
func (j *journal) grows(ctx context.Context, by int) error {
	begin, _, _ := j.state()
	return lab.Wait(ctx, func() (bool, error) {
		now, failed, last := j.state()
		if now < begin+by {
			return false, fmt.Errorf("%d samples more than %d acknowledged, not %d; %d requests failed, the last: %v", now-begin, begin, by, failed, last)
		}
		return true, nil
	})
}

func (j *journal) state() (acknowledged, failed int, last error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.acknowledged, j.mu.failed, j.mu.last
}

// check ends the journal and reads it: every acknowledged sample must be there, and
// none may be there that was never written.
func (j *journal) check(ctx context.Context) error {
	j.end()
	acknowledged, failed, _ := j.state()
	url := fmt.Sprintf("%s/api/query?start=%d&end=%d&m=sum:journal", j.door, journalStart, journalStart+acknowledged+1)
	var series []struct {
		DPS map[string]float64 `json:"dps"`
	}
	if err := getJSON(ctx, j.client, url, &series); err != nil {
		return err
	}
	if len(series) != 1 {
		return fmt.Errorf("%d series, not one", len(series))
	}
	missing := 0
	for n := range acknowledged {
		if value, ok := series[0].DPS[strconv.Itoa(journalStart+n)]; !ok || value != float64(n) {
			missing++
		}
	}
	// One more than acknowledged may have been taken when the journal ended.
	if extra := len(series[0].DPS) - acknowledged; missing > 0 || extra > 1 {
		return fmt.Errorf("of %d acknowledged samples %d are lost or wrong; %d are there that were not written", acknowledged, missing, extra)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Printf("journal: %d samples acknowledged and read; %d requests failed; the longest pause was %.1f s\n", acknowledged, failed, j.mu.pause.Seconds())
	return nil
}

func getJSON(ctx context.Context, c *http.Client, url string, into any) error {
	return lab.Wait(ctx, func() (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return true, err
		}
		response, err := c.Do(request)
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %.300s", response.Status, body)
		}
		if err == nil {
			err = json.Unmarshal(body, into)
		}
		return err == nil, err
	})
}
