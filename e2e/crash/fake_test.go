package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// defect is a way in which the fake server breaks its word when it is killed.
type defect string

const (
	none           defect = ""
	loseLast       defect = "lose the last acknowledged request"
	loseOverwrites defect = "forget an overwrite"
	undelete       defect = "bring back what was deleted"
	invent         defect = "make a sample up"
	inventSeries   defect = "make a series up"
	inventTime     defect = "move a sample by a millisecond"
	flipBit        defect = "change the last bit of a value"
	twice          defect = "answer a sample twice"
	swap           defect = "exchange the values of two samples"
)

// fakeSample is a sample with its history, so that a defect can go back in it.
type fakeSample struct {
	value    float64
	previous []float64
	deleted  bool
}

// fake is a server in memory that keeps everything over a kill, but for its
// defect. It knows just the requests that the tester sends.
type fake struct {
	defect defect
	mu     sync.Mutex
	data   map[string]map[int64]*fakeSample // by "metric/writer/series", time
	last   []func()                         // undoes the last request
	life   int                              // requests of earlier lives are dropped, as by a kill
	http   *http.Server
	web    net.Listener
	put    net.Listener
	done   chan struct{}
}

func newFake(defect defect) *fake {
	return &fake{defect: defect, data: map[string]map[int64]*fakeSample{}}
}

func (f *fake) Start(context.Context, Life) error {
	var err error
	if f.web, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	if f.put, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	f.done = make(chan struct{})
	f.mu.Lock()
	f.life++
	life := f.life
	f.mu.Unlock()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(life, w, r) })}
	f.http = server
	go func(web net.Listener) { _ = server.Serve(web) }(f.web)
	go f.acceptPut(life, f.put)
	return nil
}

func (f *fake) StartAndKill(life Life, _ time.Duration) error {
	if err := f.Start(context.Background(), life); err != nil {
		return err
	}
	return f.Kill()
}

func (f *fake) Kill() error {
	_ = f.http.Close()
	_ = f.put.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.life++
	f.spoil()
	return nil
}

func (f *fake) Stop() error {
	_ = f.put.Close()
	return f.http.Shutdown(context.Background())
}

func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) HTTPAddr() string      { return f.web.Addr().String() }
func (f *fake) PutAddr() string       { return f.put.Addr().String() }
func (f *fake) Describe() string      { return "a fake server, defect: " + string(f.defect) }

func (f *fake) acceptPut(life int, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			scanner := bufio.NewScanner(conn)
			for scanner.Scan() {
				if scanner.Text() == "version" {
					f.mu.Lock()
					dead := life != f.life
					f.mu.Unlock()
					if dead {
						return
					}
					fmt.Fprint(conn, "fake\nserver\n")
					continue
				}
				f.write(life, []string{scanner.Text()})
			}
		}()
	}
}

func (f *fake) serve(life int, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case r.URL.Path == "/api/write" || r.URL.Path == "/api/put":
		f.write(life, strings.Split(strings.TrimSpace(string(body)), "\n"))
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPost:
		f.delete(life, body)
		fmt.Fprint(w, "[]")
	default:
		f.query(w, r.URL.Query())
	}
}

var (
	linePattern = regexp.MustCompile(`^(\w+),writer=(\d+),series=(\w+) value=(\S+) (\d+)$`)
	putPattern  = regexp.MustCompile(`^put (\w+) (\d+) (\S+) writer=(\d+) series=(\w+)$`)
)

func (f *fake) write(life int, lines []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if life != f.life {
		return
	}
	f.last = nil
	for _, line := range lines {
		name, timeText, valueText := "", "", ""
		if m := linePattern.FindStringSubmatch(line); m != nil {
			name, valueText, timeText = m[1]+"/"+m[2]+"/"+m[3], m[4], m[5]
		} else if m := putPattern.FindStringSubmatch(line); m != nil {
			name, timeText, valueText = m[1]+"/"+m[4]+"/"+m[5], m[2], m[3]
		}
		timeMs, _ := strconv.ParseInt(timeText, 10, 64)
		value, _ := strconv.ParseFloat(valueText, 64)
		if f.data[name] == nil {
			f.data[name] = map[int64]*fakeSample{}
		}
		series, old := f.data[name], f.data[name][timeMs]
		sample := &fakeSample{value: value}
		if old != nil && !old.deleted {
			sample.previous = append(slices.Clone(old.previous), old.value)
		}
		series[timeMs] = sample
		f.last = append(f.last, func() {
			if delete(series, timeMs); old != nil {
				series[timeMs] = old
			}
		})
	}
}

func (f *fake) delete(life int, body []byte) {
	var request struct {
		Start, End int64
		Queries    []struct {
			Metric string
			Tags   map[string]string
		}
	}
	_ = json.Unmarshal(body, &request)
	f.mu.Lock()
	defer f.mu.Unlock()
	if life != f.life {
		return
	}
	q := request.Queries[0]
	for timeMs, sample := range f.data[q.Metric+"/"+q.Tags["writer"]+"/"+q.Tags["series"]] {
		if timeMs >= request.Start && timeMs <= request.End {
			sample.deleted = true
		}
	}
}

func (f *fake) query(w http.ResponseWriter, query url.Values) {
	var metric, writer string
	m := regexp.MustCompile(`^none:(\w+)\{writer=(\d+)\}$`).FindStringSubmatch(query.Get("m"))
	metric, writer = m[1], m[2]
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := []answerSeries{}
	for name, samples := range f.data {
		parts := strings.Split(name, "/")
		if parts[0] != metric || parts[1] != writer {
			continue
		}
		series := answerSeries{Metric: metric, Tags: map[string]string{"writer": writer, "series": parts[2]}}
		for _, timeMs := range slices.Sorted(maps.Keys(samples)) {
			if sample := samples[timeMs]; !sample.deleted {
				series.DPS = append(series.DPS, [2]float64{float64(timeMs), sample.value})
			}
		}
		if f.defect == twice && len(series.DPS) > 3 {
			series.DPS = slices.Insert(series.DPS, 2, series.DPS[2])
		}
		if len(series.DPS) > 0 {
			answer = append(answer, series)
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}
