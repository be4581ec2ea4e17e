package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/e2e/auditor"
	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

const (
	// journalStart is the time of a journal's first sample, in seconds.
	journalStart = 1_600_000_000
	// journalBatch is how many samples are sent before their acknowledgement is waited for.
	journalBatch = 5
	// clientsEach is how many clients of one protocol there are. A connection leads to one of
	// several Envoys, and from there to one of several routers, by chance: what one client meets
	// says nothing about whether anybody is served.
	clientsEach = 4
	// journalPause is between two batches of all clients of a protocol: what is tested is not speed.
	journalPause = 100 * time.Millisecond
)

// protocol is what clients that speak one protocol have in common.
type protocol struct {
	name     string
	journals []*journal
	gap      gap
}

// startProtocol begins to write a journal by each of several clients.
func startProtocol(ctx context.Context, name string, clients int, newSender func(metric string) (sender, error)) (*protocol, error) {
	p := &protocol{name: name}
	senders := make([]sender, 0, clients)
	for i := range clients {
		s, err := newSender(metricOf(name, i))
		if err != nil {
			for _, s := range senders {
				s.close()
			}
			return nil, err
		}
		senders = append(senders, s)
	}
	p.gap.mu.last = time.Now()
	for i, s := range senders {
		p.journals = append(p.journals, startJournal(ctx, metricOf(name, i), s, &p.gap, func() time.Duration {
			return auditor.Turn(time.Now(), time.Duration(clients)*journalPause, i, clients)
		}))
	}
	return p, nil
}

func metricOf(protocol string, client int) string {
	return fmt.Sprintf("journal_%s_%d", strings.ReplaceAll(protocol, " ", "_"), client)
}

// gap is the longest time in which none of several clients was answered.
type gap struct {
	mu struct {
		sync.Mutex
		last    time.Time     // when one was
		longest time.Duration // since the last lap
	}
}

func (g *gap) answered(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.longest = max(g.mu.longest, now.Sub(g.mu.last))
	g.mu.last = now
}

// lap returns the longest since its last call, of those that have ended.
func (g *gap) lap() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	longest := g.mu.longest
	g.mu.longest = 0
	return longest
}

// sender sends the samples of a journal with the numbers from first on, and returns when
// all of them are acknowledged.
type sender interface {
	send(ctx context.Context, first, count int) error
	close()
}

// journal writes numbered samples by one protocol for as long as a test goes on, and
// knows which of them were acknowledged. Samples of which that is not known are written
// again: they are the same samples.
type journal struct {
	metric string
	sender sender
	stop   context.CancelFunc
	ended  chan struct{}
	gap    *gap
	next   func() time.Duration // until the next batch
	mu     struct {
		sync.Mutex
		acknowledged int // samples 0 to this, without it
		failed       int // batches
		last         error
		inRow        int // batches that failed since the last that was acknowledged
		failedInRow  int // the most of them since the last lap
	}
}

// startJournal begins to write.
func startJournal(ctx context.Context, metric string, s sender, g *gap, next func() time.Duration) *journal {
	ctx, stop := context.WithCancel(ctx)
	j := &journal{metric: metric, sender: s, stop: stop, ended: make(chan struct{}), gap: g, next: next}
	go j.run(ctx)
	return j
}

// end stops to write. It can be called again.
func (j *journal) end() {
	j.stop()
	<-j.ended
}

func (j *journal) run(ctx context.Context) {
	defer close(j.ended)
	defer j.sender.close()
	for n := 0; ctx.Err() == nil; {
		err := j.sender.send(ctx, n, journalBatch)
		j.mu.Lock()
		switch {
		case err == nil:
			n += journalBatch
			j.mu.acknowledged = n
			j.mu.inRow = 0
			j.gap.answered(time.Now())
		case ctx.Err() == nil:
			j.mu.failed++
			j.mu.inRow++
			j.mu.failedInRow = max(j.mu.failedInRow, j.mu.inRow)
			j.mu.last = err
		}
		j.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(j.next()):
		}
	}
}

// grows waits until so many more samples are acknowledged than now.
func (j *journal) grows(ctx context.Context, by int) error {
	begin, _, _ := j.state()
	return lab.Wait(ctx, func() (bool, error) {
		now, failed, last := j.state()
		if now < begin+by {
			return false, fmt.Errorf("%s: %d samples more than %d acknowledged, not %d; %d batches failed, the last: %w", j.metric, now-begin, begin, by, failed, last)
		}
		return true, nil
	})
}

func (j *journal) state() (acknowledged, failed int, last error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.acknowledged, j.mu.failed, j.mu.last
}

// lap returns how many batches failed after each other at most, since its last call.
func (j *journal) lap() (failedInRow int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	failedInRow = j.mu.failedInRow
	j.mu.failedInRow = 0
	return failedInRow
}

// check reads the journal: every acknowledged sample must be there with its value, and
// none that was never written.
func (j *journal) check(ctx context.Context, c *http.Client, door string) error {
	acknowledged, _, _ := j.state()
	url := fmt.Sprintf("%s/api/query?start=%d&end=%d&m=sum:%s", door, journalStart, journalStart+acknowledged+journalBatch, j.metric)
	var series []struct {
		DPS map[string]float64 `json:"dps"`
	}
	if err := getJSON(ctx, c, url, &series); err != nil {
		return err
	}
	if len(series) != 1 {
		return fmt.Errorf("%s: %d series, not one", j.metric, len(series))
	}
	missing, wrong := 0, 0
	for n := range acknowledged {
		if _, ok := series[0].DPS[strconv.Itoa(journalStart+n)]; !ok {
			missing++
		}
	}
	for text, value := range series[0].DPS {
		if second, err := strconv.Atoi(text); err != nil || value != float64(second-journalStart) {
			wrong++
		}
	}
	if missing > 0 || wrong > 0 {
		return fmt.Errorf("%s: of %d acknowledged samples %d are lost; %d are there that were not written", j.metric, acknowledged, missing, wrong)
	}
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
