package rulefile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// BytesMax bounds a file.
	BytesMax = 1 << 20
	// ReadInterval is how often Run looks at the file.
	ReadInterval = time.Second
)

// Options of a File. Kind and Path are required.
type Options struct {
	Kind   string       // for metrics and the log: "auth", "databases"
	Path   string       // of the file
	Logger *slog.Logger // nil: nothing is logged
}

// File follows a file whose text T is made of. It is safe for concurrent use, and a
// prometheus.Collector.
type File[T any] struct {
	options Options
	parse   func(name string, text []byte) (T, error)
	current atomic.Pointer[T]

	reading  sync.Mutex // held while the file is read
	accepted [sha256.Size]byte
	refused  string // the last problem, told once
	changed  []func(T)

	reloads, failures atomic.Int64
	good              atomic.Bool
	described         fileDescriptions
}

type fileDescriptions struct{ good, reloads *prometheus.Desc }

// Open reads the file for the first time. Parse returns what the text means and must not
// keep it. Errors: those of reading, and of parse.
func Open[T any](o Options, parse func(name string, text []byte) (T, error)) (*File[T], error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	labels := prometheus.Labels{"file": o.Kind}
	f := &File[T]{options: o, parse: parse, described: fileDescriptions{
		good: prometheus.NewDesc("tickmesh_rule_file_good", "0 while the file on disk is not usable, so that the rules before it are in force.", nil, labels),
		reloads: prometheus.NewDesc("tickmesh_rule_file_reloads_total", "Changes of the file by what became of them.",
			[]string{"outcome"}, labels),
	}}
	text, err := read(o.Path)
	if err != nil {
		return nil, err
	}
	value, err := parse(o.Path, text)
	if err != nil {
		return nil, err
	}
	f.accepted = sha256.Sum256(text)
	f.current.Store(&value)
	f.good.Store(true)
	return f, nil
}

// read returns the content of a file of at most BytesMax bytes.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file", ErrFile, path)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(io.LimitReader(file, BytesMax+1)); err != nil {
		return nil, err
	}
	if text.Len() > BytesMax {
		return nil, fmt.Errorf("%w: %s is longer than %d bytes", ErrFile, path, BytesMax)
	}
	return text.Bytes(), nil
}

// Current returns what the file said when it last made sense. It costs one atomic load.
func (f *File[T]) Current() T { return *f.current.Load() }

// OnChange has a function told of each new value, and of the current one now. Functions
// are called one after the other and must not call back.
func (f *File[T]) OnChange(changed func(T)) {
	f.reading.Lock()
	defer f.reading.Unlock()
	f.changed = append(f.changed, changed)
	changed(f.Current())
}

// Check reads the file again, now, and reports whether there is a new value. Errors: those of
// Open; the value before stays.
func (f *File[T]) Check() (changed bool, err error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	text, err := read(f.options.Path)
	if err != nil {
		return false, f.refuse(err)
	}
	sum := sha256.Sum256(text)
	if sum == f.accepted {
		f.good.Store(true)
		f.refused = ""
		return false, nil
	}
	value, err := f.parse(f.options.Path, text)
	if err != nil {
		return false, f.refuse(err)
	}
	f.accepted, f.refused = sum, ""
	f.current.Store(&value)
	f.good.Store(true)
	f.reloads.Add(1)
	f.options.Logger.Info("the file has changed; what it says holds from now on", "kind", f.options.Kind, "file", f.options.Path)
	for _, changed := range f.changed {
		changed(value)
	}
	return true, nil
}

// refuse notes a problem, once for as long as it stays the same.
func (f *File[T]) refuse(err error) error {
	f.good.Store(false)
	if text := err.Error(); text != f.refused {
		f.refused = text
		f.failures.Add(1)
		f.options.Logger.Error("the file has changed and is not usable; what it said before stays in force", "kind", f.options.Kind, "file", f.options.Path, "error", err)
	}
	return err
}

// Run reads the file again every ReadInterval until ctx ends.
func (f *File[T]) Run(ctx context.Context) {
	ticker := time.NewTicker(ReadInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_, _ = f.Check() // it has been logged and counted
		}
	}
}

// Describe implements prometheus.Collector.
func (f *File[T]) Describe(to chan<- *prometheus.Desc) {
	to <- f.described.good
	to <- f.described.reloads
}

// Collect implements prometheus.Collector.
func (f *File[T]) Collect(to chan<- prometheus.Metric) {
	good := 0.0
	if f.good.Load() {
		good = 1
	}
	to <- prometheus.MustNewConstMetric(f.described.good, prometheus.GaugeValue, good)
	to <- prometheus.MustNewConstMetric(f.described.reloads, prometheus.CounterValue, float64(f.reloads.Load()), "accepted")
	to <- prometheus.MustNewConstMetric(f.described.reloads, prometheus.CounterValue, float64(f.failures.Load()), "refused")
}
