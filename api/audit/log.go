package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// queueLength is how many events wait for the writer. At a few hundred bytes each they take
// some megabytes at most.
const queueLength = 4096

// warnInterval is between two lines of the process's log about events that are lost.
const warnInterval = time.Minute

// Stderr is the path that stands for standard error.
const Stderr = "stderr"

// Options configure a Log. Path is required.
type Options struct {
	Path   string       // of a file or a named pipe that is read; Stderr: standard error
	All    bool         // queries and all other requests too, writes of points aside
	Stderr io.Writer    // nil: os.Stderr
	Logger *slog.Logger // nil: nothing is logged
}

// Log is the audit log. Its methods do nothing on nil, which stands for none. It is a
// prometheus.Collector.
type Log struct {
	options Options
	queue   chan Event
	reopen  chan struct{}
	stopped chan struct{} // closed by Close
	ended   chan struct{} // closed by the writer
	stop    sync.Once

	out      io.Writer
	file     *os.File // nil: standard error
	torn     bool     // what was written last ended within a line
	nextWarn time.Time

	written, dropped, failed atomic.Int64
	described                *prometheus.Desc
}

// Open opens the file for appending, makes it for its owner alone if it is not there, and
// starts the writer. Errors: those of opening.
func Open(o Options) (*Log, error) {
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{
		options: o, queue: make(chan Event, queueLength), reopen: make(chan struct{}, 1),
		stopped: make(chan struct{}), ended: make(chan struct{}),
		described: prometheus.NewDesc("tickmesh_audit_events_total", "Events of the audit log, by what became of them: dropped ones found the queue full, of failed ones the file took nothing.", []string{"outcome"}, nil),
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// open opens the path; the file before stays where that fails.
func (l *Log) open() error {
	if l.options.Path == Stderr {
		l.out = l.options.Stderr
		return nil
	}
	// Non-blocking matters for named pipes only: one that nobody reads is an error, not a wait.
	file, err := os.OpenFile(l.options.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	if l.file != nil {
		_ = l.file.Close() // each line was written at once
	}
	l.file, l.out, l.torn = file, file, isTorn(l.options.Path)
	return nil
}

// isTorn reports whether a file that was there ends within a line, as one does whose disk was full
// or whose process was killed. Pipes, and files that may not be read, do not.
func isTorn(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Wants reports whether requests that do nothing noteworthy are written down too.
func (l *Log) Wants() bool { return l != nil && l.options.All }

// Finish records the end of a request if it is to be written down: where it was refused, did
// something noteworthy, or all are. R may be nil.
func (l *Log) Finish(r *Request, e Event) {
	if l == nil {
		return
	}
	if r.finish(&e) || e.Outcome == Refused || l.options.All {
		l.Record(e)
	}
}

// Record queues an event. It never waits.
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	e.Time, e.Action, e.Error = e.Time.UTC(), cut(e.Action), cut(e.Error)
	select {
	case <-l.stopped:
		l.dropped.Add(1)
		return
	default:
	}
	select {
	case l.queue <- e:
	default:
		l.dropped.Add(1)
	}
}

// Reopen has the writer open the path anew, as after a rotation. It does not wait.
func (l *Log) Reopen() {
	if l == nil {
		return
	}
	select {
	case l.reopen <- struct{}{}:
	default: // it is to do so already
	}
}

// Close writes what waits, until the context ends, and closes the file. Errors: that of the context,
// after which what waits is lost. A second call waits like the first.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.stop.Do(func() { close(l.stopped) })
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the audit log %s takes no more: %d events are lost: %w", l.options.Path, len(l.queue)+1, context.Cause(ctx))
	}
}

func (l *Log) run() {
	defer close(l.ended)
	defer func() {
		if l.file != nil {
			_ = l.file.Close()
		}
	}()
	var line bytes.Buffer
	for {
		select {
		case e := <-l.queue:
			l.write(&line, &e)
		case <-l.reopen:
			if err := l.open(); err != nil {
				l.warn("the audit log cannot be opened anew and goes on in the old file", err)
			}
		case <-l.stopped:
			for {
				select {
				case e := <-l.queue:
					l.write(&line, &e)
				default:
					return
				}
			}
		}
	}
}

func (l *Log) write(line *bytes.Buffer, e *Event) {
	line.Reset()
	if l.torn { // or this event would be lost with the one before
		line.WriteByte('\n')
	}
	encoder := json.NewEncoder(line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(e) // a line, its end included
	if err == nil {
		var n int
		if n, err = l.out.Write(line.Bytes()); n > 0 {
			l.torn = line.Bytes()[n-1] != '\n'
		}
	}
	if err != nil {
		l.failed.Add(1)
		l.warn("the audit log takes no events", err)
		return
	}
	l.written.Add(1)
	if n := l.dropped.Load(); n > 0 && time.Now().After(l.nextWarn) {
		l.warn("events of the audit log were left out", errFull)
	}
}

var errFull = errors.New("the queue was full: the file is too slow")

// warn logs, seldom.
func (l *Log) warn(message string, err error) {
	now := time.Now()
	if now.Before(l.nextWarn) {
		return
	}
	l.nextWarn = now.Add(warnInterval)
	l.options.Logger.Error(message, "path", l.options.Path, "error", err, "dropped", l.dropped.Load(), "failed", l.failed.Load())
}

// Describe implements prometheus.Collector.
func (l *Log) Describe(to chan<- *prometheus.Desc) { to <- l.described }

// Collect implements prometheus.Collector.
func (l *Log) Collect(to chan<- prometheus.Metric) {
	for _, c := range []struct {
		outcome string
		count   *atomic.Int64
	}{{"written", &l.written}, {"dropped", &l.dropped}, {"failed", &l.failed}} {
		to <- prometheus.MustNewConstMetric(l.described, prometheus.CounterValue, float64(c.count.Load()), c.outcome)
	}
}
