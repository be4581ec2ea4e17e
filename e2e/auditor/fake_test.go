package auditor

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/model"
)

// defect is a way in which the fake cluster breaks its word.
type defect string

const (
	none          defect = ""
	dropAck       defect = "answer a write and drop it"
	dropPart      defect = "answer a write and drop its last sample"
	dropDelete    defect = "answer a delete and drop it"
	dropOverwrite defect = "answer an overwrite and drop it"
	flipBit       defect = "change the last bit of a value"
	staleRead     defect = "answer a query from a state of a while ago"
	blindRouter   defect = "one router does not see the latest write through the other"
	zombie        defect = "apply an answered write again later"
	undelete      defect = "bring back what was deleted"
	invent        defect = "make a sample up"
	inventSeries  defect = "make a series up"
	moveTime      defect = "move a sample by a millisecond"
	twice         defect = "answer a sample twice"
	exchange      defect = "exchange the values of two samples"
	refuse        defect = "refuse a valid write"
	forgetKey     defect = "apply a write again that is repeated with its key"
	cutAnswer     defect = "leave a series out of an answer"
)

// fakeState is the samples by series and time.
type fakeState map[string]map[int64]float64

func (s fakeState) clone() fakeState {
	c := fakeState{}
	for name, samples := range s {
		c[name] = maps.Clone(samples)
	}
	return c
}

// fake is a cluster of two routers in memory. The honest one serves some requests
// badly, as a cluster with faults may.
type fake struct {
	defect  defect
	routers [2]*httptest.Server
	mu      struct {
		sync.Mutex
		state    fakeState
		requests int
		before   []fakeState     // of the last requests
		through  int             // the router of the latest write
		later    []func()        // requests without an answer that are still on their way
		answered []func()        // the last requests that were answered
		keys     map[string]bool // of writes that were applied
	}
}

func newFake(t *testing.T, d defect) *fake {
	f := &fake{defect: d}
	f.mu.state, f.mu.keys = fakeState{}, map[string]bool{}
	for i := range f.routers {
		f.routers[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(i, w, r) }))
		t.Cleanup(f.routers[i].Close)
	}
	return f
}

func (f *fake) Routers() []string {
	return []string{strings.TrimPrefix(f.routers[0].URL, "http://"), strings.TrimPrefix(f.routers[1].URL, "http://")}
}

func (f *fake) serve(router int, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodGet {
		f.query(router, w, r.URL.Query())
		return
	}
	f.mu.requests++
	f.mu.before = append(f.mu.before, f.mu.state.clone())
	if len(f.mu.before) > 3 {
		f.mu.before = f.mu.before[1:]
	}
	apply := f.once(r.Header.Get("Idempotency-Key"), f.change(r.URL.Path == "/write", string(body)))
	switch {
	case f.defect == refuse && f.mu.requests%50 == 0:
		http.Error(w, "no", http.StatusBadRequest)
		return
	case f.mu.requests%23 == 0: // not served, and never applied
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	case f.mu.requests%29 == 0: // not served, so it seems
		apply()
		http.Error(w, "unknown", http.StatusServiceUnavailable)
		return
	case f.mu.requests%31 == 0: // the same, later
		f.mu.later = append(f.mu.later, apply)
		panic(http.ErrAbortHandler)
	}
	apply()
	f.mu.through = router
	f.mu.answered = append(f.mu.answered, apply)
	f.spoil()
	if len(f.mu.later) > 0 && f.mu.requests%7 == 0 {
		f.mu.later[0]()
		f.mu.later = f.mu.later[1:]
	}
	w.WriteHeader(http.StatusNoContent)
}

var linePattern = regexp.MustCompile(`^(\w+),client=(\d+),series=(\w+) value=(\S+) (\d+)$`)

// once returns what a request with a key does.
func (f *fake) once(key string, apply func()) func() {
	if key == "" || f.defect == forgetKey {
		return apply
	}
	return func() {
		if !f.mu.keys[key] {
			f.mu.keys[key] = true
			apply()
		}
	}
}

// change returns what a request does to the state.
func (f *fake) change(isWrite bool, body string) func() {
	if !isWrite {
		return f.deletion(body)
	}
	lines := strings.Split(strings.TrimSpace(body), "\n")
	return func() {
		for _, line := range lines {
			m := linePattern.FindStringSubmatch(line)
			name := m[1] + "/" + m[2] + "/" + m[3]
			value, _ := strconv.ParseFloat(m[4], 64)
			timeMs, _ := strconv.ParseInt(m[5], 10, 64)
			if f.mu.state[name] == nil {
				f.mu.state[name] = map[int64]float64{}
			}
			f.mu.state[name][timeMs] = value
		}
	}
}

func (f *fake) deletion(body string) func() {
	var request struct {
		Start, End int64
		Queries    []struct {
			Metric string
			Tags   map[string]string
		}
	}
	_ = json.Unmarshal([]byte(body), &request)
	q := request.Queries[0]
	return func() {
		maps.DeleteFunc(f.mu.state[q.Metric+"/"+q.Tags["client"]+"/"+q.Tags["series"]], func(timeMs int64, _ float64) bool {
			return timeMs >= request.Start && timeMs <= request.End
		})
	}
}

// spoil applies the defect to what was just answered.
func (f *fake) spoil() {
	if f.mu.requests%50 != 0 && f.defect != dropDelete && f.defect != dropOverwrite && f.defect != undelete {
		return
	}
	before := f.mu.before[len(f.mu.before)-1]
	switch f.defect {
	case dropAck:
		f.mu.state = before
	case dropPart, dropDelete, dropOverwrite:
		for _, name := range slices.Sorted(maps.Keys(f.mu.state)) {
			for timeMs := range f.mu.state[name] {
				if _, ok := before[name][timeMs]; !ok && f.defect == dropPart {
					delete(f.mu.state[name], timeMs)
					return
				}
			}
			for timeMs, value := range before[name] {
				if _, ok := f.mu.state[name][timeMs]; ok == (f.defect == dropOverwrite) && f.defect != dropPart {
					f.mu.state[name][timeMs] = value
				}
			}
		}
	case undelete:
		for name, samples := range f.mu.before[0] {
			for timeMs, value := range samples {
				if _, ok := f.mu.state[name][timeMs]; !ok && f.mu.requests%10 == 0 {
					f.mu.state[name][timeMs] = value
				}
			}
		}
	case zombie:
		clear(f.mu.keys)
		f.mu.answered[0]()
		f.mu.answered = nil
	case invent, inventSeries, moveTime, exchange, flipBit:
		f.spoilSample()
	}
}

func (f *fake) spoilSample() {
	for _, name := range slices.Sorted(maps.Keys(f.mu.state)) {
		samples := f.mu.state[name]
		times := slices.Sorted(maps.Keys(samples))
		if len(times) < 2 {
			continue
		}
		first, second := times[0], times[1]
		switch f.defect {
		case invent:
			samples[times[len(times)-1]+500*60_000] = 1
		case inventSeries:
			f.mu.state[name+"x"] = maps.Clone(samples)
		case moveTime:
			samples[first+1] = samples[first]
			delete(samples, first)
		case flipBit:
			samples[first] = math.Float64frombits(math.Float64bits(samples[first]) ^ 1)
		case exchange:
			samples[first], samples[second] = samples[second], samples[first]
		}
		return
	}
}

func (f *fake) query(router int, w http.ResponseWriter, query url.Values) {
	m := regexp.MustCompile(`^none:(\w+)\{client=(\d+)\}$`).FindStringSubmatch(query.Get("m"))
	fromMs, _ := strconv.ParseInt(query.Get("start"), 10, 64)
	toMs, _ := strconv.ParseInt(query.Get("end"), 10, 64)
	state := f.mu.state
	if len(f.mu.before) == 3 && (f.defect == staleRead || f.defect == blindRouter && f.mu.through != router) {
		state = f.mu.before[len(f.mu.before)-1]
	}
	answer := []model.AnswerSeries{}
	for _, name := range slices.Sorted(maps.Keys(state)) {
		parts := strings.Split(name, "/")
		if parts[0] != m[1] || parts[1] != m[2] {
			continue
		}
		series := model.AnswerSeries{Metric: parts[0], Tags: map[string]string{"client": parts[1], "series": parts[2]}}
		for _, timeMs := range slices.Sorted(maps.Keys(state[name])) {
			if timeMs >= fromMs && timeMs <= toMs {
				series.DPS = append(series.DPS, [2]float64{float64(timeMs), state[name][timeMs]})
			}
		}
		if f.defect == twice && len(series.DPS) > 3 {
			series.DPS = slices.Insert(series.DPS, 2, series.DPS[2])
		}
		if len(series.DPS) > 0 && (f.defect != cutAnswer || f.mu.requests < 50 || parts[2] != "s0") {
			answer = append(answer, series)
		}
	}
	if len(answer) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"message":"No such name for 'metrics'"}}`)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}
