package model

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// ErrBroken is returned when an answer is not what was promised.
var ErrBroken = errors.New("the server did not keep its word")

// Config describes the data.
type Config struct {
	Seed      uint64
	Metric    string
	Writers   int // clients, each with its own series
	Series    int // of each client at the beginning
	SeriesMax int // of each client; the rest comes with time
	// Aged is how many further series of each client lie in the past, for a retention that
	// shrinks. Without them every second series grows from long ago.
	Aged    int
	RowsMax int // of a request that continues series
	// ServerEnds means that there is one server, which a check finds started anew: a request is over
	// when it is answered, and the others by then.
	ServerEnds bool
}

// Validate refuses what cannot be played.
func (c *Config) Validate() error {
	if c.Writers < 1 || c.Series < 2 || c.RowsMax < 1 {
		return errors.New("at least one client with two series, and rows of one, are needed")
	}
	return nil
}

// Model is all data of one metric.
type Model struct {
	Config  Config
	Writers []*Writer
}

// Times of the data. Young series grow from the start in small steps, old ones from long
// before it in large ones, so that they cross partitions. Aged ones are written anywhere in a
// stretch before the start.
const (
	youngStepMs int64 = 100
	oldStepMs   int64 = 60_000
	oldSpanMs   int64 = 40 * 24 * 3600 * 1000
	agedStepMs  int64 = 10 * 60 * 1000
	agedSpanMs  int64 = 220 * 3600 * 1000
)

// New returns the model of clients that have not written yet.
func New(config Config, nowMs int64) *Model {
	m := &Model{Config: config}
	for number := range config.Writers {
		w := &Writer{Number: number, config: &m.Config, nowMs: nowMs}
		for i := range config.Aged {
			w.addSeries("aged"+strconv.Itoa(i), nowMs-agedSpanMs, agedStepMs).grow(int(agedSpanMs / agedStepMs))
		}
		for i := range config.Series {
			if config.Aged == 0 && i%2 == 1 {
				w.addSeries("s"+strconv.Itoa(i), nowMs-oldSpanMs, oldStepMs)
			} else {
				w.addSeries("s"+strconv.Itoa(i), nowMs, youngStepMs)
			}
		}
		m.Writers = append(m.Writers, w)
	}
	return m
}

// Writer is what one client owns: nobody else writes to its series.
type Writer struct {
	Number int

	config *Config
	nowMs  int64 // of the start
	mu     struct {
		sync.Mutex
		series []*series
		head   int   // next index of the series that grow
		cutMs  int64 // what is before it may be gone
		keepMs int64 // what is before it is not written any more
	}
}

func (w *Writer) addSeries(name string, firstMs, stepMs int64) *series {
	s := &series{name: name, firstMs: firstMs, stepMs: stepMs, doubt: map[int][]version{}, serverEnds: w.config.ServerEnds}
	s.hash = w.config.Seed
	for _, letter := range fmt.Sprintf("%s/%d/%s", w.config.Metric, w.Number, name) {
		s.hash = mix(s.hash ^ uint64(letter))
	}
	w.mu.series = append(w.mu.series, s)
	return s
}

// Cut notes that samples before a time may be gone, and that none before keepMs is to be
// written.
func (m *Model) Cut(cutMs, keepMs int64) {
	for _, w := range m.Writers {
		w.mu.Lock()
		w.mu.cutMs, w.mu.keepMs = max(w.mu.cutMs, cutMs), max(w.mu.keepMs, keepMs)
		w.mu.Unlock()
	}
}

// MayLose notes that the power of servers which do not sync their log before each answer was
// cut, and that what was acknowledged since a moment before that may be lost. It is called
// when they are down.
func (m *Model) MayLose(since time.Time) {
	for _, w := range m.Writers {
		w.mu.Lock()
		for _, s := range w.mu.series {
			s.mayLose(since)
		}
		w.mu.Unlock()
	}
}
