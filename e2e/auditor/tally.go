package auditor

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/e2e/model"
)

// Report counts what an audit did.
type Report struct {
	Requests     int64 // writes and deletes that were acknowledged
	Samples      int64 // acknowledged
	Deletes      int64 // acknowledged
	Refusals     int64 // writes and deletes answered by 429 or 5xx
	Unanswered   int64 // writes and deletes without an answer
	Repeats      int64 // acknowledged writes that were sent again and answered
	Queries      int64 // answered, while all goes on
	QueryErrors  int64 // queries answered by 5xx
	QueriesLost  int64 // queries without an answer
	Compared     int64 // samples compared, by all reads and checks
	Checks       int   // passed, of everything
	Digests      int64 // compared
	WriteGapMax  time.Duration
	WriteMax     time.Duration // the longest that one request took, whatever its answer
	QueryMax     time.Duration
	QueryGapMax  time.Duration // longest time without an answer to any client
	Duration     time.Duration
	FirstFailure string // the first refusal or loss, for people
	LastFailure  string
}

// String returns the report in two lines.
func (r Report) String() string {
	text := fmt.Sprintf("%d samples in %d requests with %d deletes acknowledged, %d repeated, %d refused, %d unanswered, no answer for %s at most, the slowest took %s;\n"+
		"%d queries answered, %d failed, %d unanswered, no answer for %s at most, the slowest took %s; %d samples and %d digests compared, %d checks, %s",
		r.Samples, r.Requests, r.Deletes, r.Repeats, r.Refusals, r.Unanswered, r.WriteGapMax.Round(time.Millisecond), r.WriteMax.Round(time.Millisecond),
		r.Queries, r.QueryErrors, r.QueriesLost, r.QueryGapMax.Round(time.Millisecond), r.QueryMax.Round(time.Millisecond), r.Compared, r.Digests, r.Checks, r.Duration.Round(time.Millisecond))
	if r.FirstFailure != "" {
		text += "\nfirst failure: " + r.FirstFailure
	}
	return text
}

// findingsMax bounds how many findings are kept.
const findingsMax = 20

// tally is what all clients count together.
type tally struct {
	mu struct {
		sync.Mutex
		sums                 Report
		start                time.Time
		lastWrite, lastQuery time.Time // answered, or when a check let the clients go on
		lap                  Lap       // since the last call of endLap
		answered             []int64   // requests by client: writers, then readers
		inRow                []int     // requests by client that failed since the last that was answered
		failure              string    // the latest
		findings             []error
	}
}

func (t *tally) begin(now time.Time, clients int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.answered, t.mu.inRow = make([]int64, clients), make([]int, clients)
	t.mu.start, t.mu.lastWrite, t.mu.lastQuery = now, now, now
}

// rounds returns how many requests of each client were answered.
func (t *tally) rounds() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]int64(nil), t.mu.answered...)
}

// acknowledged counts an answered write or delete.
func (t *tally) acknowledged(client int, o *model.Operation, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.answered[client]++
	t.mu.inRow[client] = 0
	t.mu.sums.Requests++
	t.mu.sums.Samples += int64(o.Samples())
	if o.Deletes() {
		t.mu.sums.Deletes++
	}
	t.mu.sums.WriteGapMax = max(t.mu.sums.WriteGapMax, now.Sub(t.mu.lastWrite))
	t.mu.lap.WriteGap = max(t.mu.lap.WriteGap, now.Sub(t.mu.lastWrite))
	t.mu.lastWrite = now
}

// answeredQuery counts a query that was answered and compared.
func (t *tally) answeredQuery(client int, compared int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.answered[client]++
	t.mu.inRow[client] = 0
	t.mu.sums.Queries++
	t.mu.sums.Compared += compared
	t.mu.sums.QueryGapMax = max(t.mu.sums.QueryGapMax, now.Sub(t.mu.lastQuery))
	t.mu.lap.QueryGap = max(t.mu.lap.QueryGap, now.Sub(t.mu.lastQuery))
	t.mu.lastQuery = now
}

// Lap is what clients met for a while.
type Lap struct {
	// WriteGap and QueryGap are the longest times without an acknowledged write, and without an
	// answered query, of those that have ended.
	WriteGap, QueryGap time.Duration
	// FailedInRow is how many requests of one client failed after each other, at most.
	FailedInRow int
}

// endLap returns what clients met since its last call.
func (t *tally) endLap() Lap {
	t.mu.Lock()
	defer t.mu.Unlock()
	this := t.mu.lap
	t.mu.lap = Lap{}
	return this
}

// failed counts a request that was not served.
func (t *tally) failed(client int, query bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.inRow[client]++
	t.mu.lap.FailedInRow = max(t.mu.lap.FailedInRow, t.mu.inRow[client])
	unavailable := errors.Is(err, errUnavailable)
	switch {
	case query && unavailable:
		t.mu.sums.QueryErrors++
	case query:
		t.mu.sums.QueriesLost++
	case unavailable:
		t.mu.sums.Refusals++
	default:
		t.mu.sums.Unanswered++
	}
	t.mu.failure = err.Error()
	if t.mu.sums.FirstFailure == "" {
		t.mu.sums.FirstFailure = t.mu.failure
	}
}

// took notes how long a request took.
func (t *tally) took(query bool, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if query {
		t.mu.sums.QueryMax = max(t.mu.sums.QueryMax, d)
	} else {
		t.mu.sums.WriteMax = max(t.mu.sums.WriteMax, d)
	}
}

// repeated counts a repetition that was answered.
func (t *tally) repeated(client int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.inRow[client] = 0
	t.mu.sums.Repeats++
}

// resume notes that clients were kept from asking until now.
func (t *tally) resume(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.lastWrite, t.mu.lastQuery = now, now
}

// checked counts a check of everything.
func (t *tally) checked(compared int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.sums.Compared += compared
	t.mu.sums.Checks++
}

// digested counts compared digests.
func (t *tally) digested(count int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.sums.Digests += count
}

// find keeps what is wrong.
func (t *tally) find(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && len(t.mu.findings) < findingsMax {
		t.mu.findings = append(t.mu.findings, err)
	}
}

func (t *tally) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.mu.findings...)
}

func (t *tally) lastFailure() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.failure == "" {
		return "no request failed"
	}
	return "last failure: " + t.mu.failure
}

func (t *tally) report(now time.Time) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	report := t.mu.sums
	report.Duration, report.LastFailure = now.Sub(t.mu.start), t.mu.failure
	return report
}
