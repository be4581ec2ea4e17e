package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// servedMax bounds the time in which a request of a good client must have been served, with
// all its tries. It is far above what a busy machine makes of a working server.
const servedMax = 10 * time.Second

// good are a writer and a reader that keep the rules: they write and read their own
// database at an even pace, try again when they are asked to, and remember how long it took.
type good struct {
	g     *ground
	acked atomic.Int64 // the last value that is acknowledged

	mu       sync.Mutex
	took     map[string][]time.Duration // since the last take, by kind
	problems []string
}

const goodPace = 10 * time.Millisecond

// errAgain is what the server asks to do again.
var errAgain = errors.New("the server is busy")

// run does one thing over and over.
func (c *good) run(ctx context.Context, kind string, once func(context.Context, *http.Client) error) {
	client := clientFrom(goodAddress, true)
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(goodPace)
	defer ticker.Stop()
	for ctx.Err() == nil {
		begin := time.Now()
		var err error
		for {
			try, cancel := context.WithTimeout(ctx, servedMax)
			err = once(try, client)
			cancel()
			if !errors.Is(err, errAgain) || time.Since(begin) > servedMax {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		c.note(ctx, kind, time.Since(begin), err)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (c *good) note(ctx context.Context, kind string, took time.Duration, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took[kind] = append(c.took[kind], took)
	if err == nil && took > servedMax {
		err = errors.New("too late")
	}
	if err != nil && len(c.problems) < 5 {
		c.problems = append(c.problems, fmt.Sprintf("%s after %v: %v", kind, took.Round(time.Millisecond), err))
	}
}

// series is what they write and read.
func (c *good) series() string { return "progress" + c.g.marks.good }

func (c *good) write(ctx context.Context, client *http.Client) error {
	next := c.acked.Load() + 1
	line := fmt.Sprintf("%s value=%d %d\n", c.series(), next, time.Now().UnixNano())
	a := c.g.callBy(ctx, client, userGood, http.MethodPost, "http://"+c.g.at.HTTP+"/write?db=good", nil, line)
	c.g.spy.seeAnswer("a write of a good client", "", a)
	if err := judge(a, http.StatusNoContent); err != nil {
		return err
	}
	c.acked.Store(next)
	return nil
}

// read asks for the newest value, which must not be older than what was acknowledged before. It reads half a minute,
// longer than servedMax: of an hour it would read the more the longer the test lasts, at 100 values a second, until
// the good clients alone keep the server from being idle.
func (c *good) read(ctx context.Context, client *http.Client) error {
	before := c.acked.Load()
	if before == 0 {
		return nil
	}
	a := c.g.callBy(ctx, client, userGood, http.MethodGet, "http://"+c.g.at.HTTP+"/api/v1/query?db=good&query=max(max_over_time("+c.series()+"[30s]))", nil, "")
	c.g.spy.seeAnswer("a read of a good client", "", a)
	if err := judge(a, http.StatusOK); err != nil {
		return err
	}
	var told struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(a.body, &told); err != nil {
		return fmt.Errorf("%w: %.200s", err, a.body)
	}
	if len(told.Data.Result) != 1 {
		return fmt.Errorf("%d was acknowledged, and the answer is %.200s", before, a.body)
	}
	text, _ := told.Data.Result[0].Value[1].(string)
	if value, err := strconv.ParseFloat(text, 64); err != nil || int64(value) < before {
		return fmt.Errorf("%d was acknowledged, and the answer is %.200s", before, a.body)
	}
	return nil
}

func judge(a answer, want int) error {
	switch {
	case a.err != nil:
		return a.err
	case a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests:
		return errAgain
	case a.status != want:
		return fmt.Errorf("status %d: %.200s", a.status, a.body)
	}
	return nil
}

// told is what good clients have met since the last time.
type told struct {
	Took     map[string][]time.Duration // by kind, in order of length
	Problems []string
	Leaks    []string // of others' data and names
}

func (c *good) tell() (t told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, c.took, c.problems = told{c.took, c.problems, c.g.spy.take()}, map[string][]time.Duration{}, nil
	for _, took := range t.Took {
		slices.Sort(took)
	}
	return t
}
