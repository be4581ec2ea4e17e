package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The series: batches of equal size, each of which is one request.
const (
	batchSeries = 5000
	writers     = 4
	tries       = 60 // of a second, for one request
	roundStepMs = 10_000
	firstMs     = 1_700_000_000_000
)

// live are the series and what was acknowledged of each batch.
type live struct {
	t       *testing.T
	base    string // of the router
	batches []batch
	client  http.Client

	taken, refused      atomic.Int64 // requests that write
	queries, unanswered atomic.Int64
	slowest             atomic.Int64 // query, in nanoseconds
}

// batch is written by one goroutine, round after round.
type batch struct {
	number int
	rounds int // that were acknowledged; all rounds of lower numbers were
}

func newLive(t *testing.T, base string, series int) *live {
	l := &live{t: t, base: base, batches: make([]batch, series/batchSeries), client: http.Client{Timeout: time.Minute}}
	for n := range l.batches {
		l.batches[n].number = n
	}
	return l
}

// value is never 0: a sample that is missing makes the sum another.
func value(batch, series, round int) int { return 1 + (31*batch+7*series+13*round)%1009 }

// sum returns the sum of a batch's values of a round.
func sum(batch, round int) (n int) {
	for i := range batchSeries {
		n += value(batch, i, round)
	}
	return n
}

// write writes a round of a batch until it is acknowledged or the context ends.
func (l *live) write(ctx context.Context, b *batch, body *bytes.Buffer) error {
	body.Reset()
	timeMs := firstMs + int64(b.rounds)*roundStepMs
	for i := range batchSeries {
		fmt.Fprintf(body, "live,batch=b%03d,datacenter=eu-central-1,host=host-%05d,service=checkout value=%d %d\n",
			b.number, i, value(b.number, i, b.rounds), timeMs)
	}
	var last error
	for range tries {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base+"/write?precision=ms", bytes.NewReader(body.Bytes()))
		if err != nil {
			return err
		}
		answer, err := l.client.Do(request)
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusNoContent {
				b.rounds++
				l.taken.Add(1)
				return nil
			}
			err = fmt.Errorf("%s: %s", answer.Status, text)
			if answer.StatusCode < 500 {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.refused.Add(1)
		last = err
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("batch %d, round %d: not taken %d times, the last time: %w", b.number, b.rounds, tries, last)
}

// writeRound writes one round of all batches.
func (l *live) writeRound(ctx context.Context) {
	l.each(func(b *batch, body *bytes.Buffer) {
		if err := l.write(ctx, b, body); err != nil {
			l.t.Error(err)
		}
	})
}

// each calls a function for each batch, on as many goroutines as there are writers.
func (l *live) each(visit func(*batch, *bytes.Buffer)) {
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			var body bytes.Buffer
			for n := w; n < len(l.batches); n += writers {
				visit(&l.batches[n], &body)
			}
		})
	}
	all.Wait()
}

// begin writes and queries without pause until the function that it returns is called.
func (l *live) begin() (end func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			l.each(func(b *batch, body *bytes.Buffer) {
				if ctx.Err() == nil {
					if err := l.write(ctx, b, body); err != nil && ctx.Err() == nil {
						l.t.Error(err)
						cancel()
					}
				}
			})
		}
	})
	all.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			begun := time.Now()
			_, err := l.sums(ctx, n%len(l.batches))
			if ctx.Err() != nil {
				return
			}
			l.queries.Add(1)
			if err != nil {
				l.unanswered.Add(1)
				l.t.Logf("query: %v", err)
			}
			l.slowest.Store(max(l.slowest.Load(), int64(time.Since(begun))))
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	return func() { cancel(); all.Wait() }
}

// sums asks for the sums of a batch by round.
func (l *live) sums(ctx context.Context, batch int) (map[int]float64, error) {
	query := url.Values{"start": {strconv.Itoa(firstMs)}, "end": {strconv.Itoa(2 * firstMs)}, "m": {fmt.Sprintf("zimsum:live{batch=b%03d}", batch)}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base+"/api/query?ms&"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.300s", answer.Status, text)
	}
	var read []struct{ DPS map[string]float64 }
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, err
	}
	if len(read) != 1 {
		return nil, fmt.Errorf("%d results", len(read))
	}
	rounds := map[int]float64{}
	for at, v := range read[0].DPS {
		timeMs, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, err
		}
		rounds[int((timeMs-firstMs)/roundStepMs)] = v
	}
	return rounds, nil
}

// verify compares all that was acknowledged with what is there.
func (l *live) verify(t *testing.T) {
	t.Helper()
	samples := 0
	for n := range l.batches {
		b := &l.batches[n]
		var got map[int]float64
		var err error
		for range tries {
			if got, err = l.sums(t.Context(), n); err == nil {
				break
			}
			time.Sleep(time.Second)
		}
		if err != nil {
			t.Fatalf("batch %d cannot be read: %v", n, err)
		}
		for round := range b.rounds {
			if want := float64(sum(n, round)); got[round] != want {
				t.Errorf("batch %d, round %d: the values add up to %v, acknowledged were %v", n, round, got[round], want)
			}
		}
		samples += b.rounds * batchSeries
	}
	t.Logf("%d samples of %d series are there", samples, len(l.batches)*batchSeries)
}
