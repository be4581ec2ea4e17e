package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
)

// Kinds returns the kinds of databases that Open knows.
func Kinds() []string {
	return []string{"prometheus", "victoriametrics", "influxdb", "opentsdb", "ticktock"}
}

// Open returns a database of a kind. Nothing is asked yet. Errors: ErrOptions.
func Open(kind string, o SourceOptions) (Source, error) {
	if o.Database == "" && kind == "influxdb" {
		return nil, fmt.Errorf("%w: InfluxDB has databases: name one by --source-db", ErrOptions)
	}
	if kind != "influxdb" && (o.Database != "" || o.RetentionPolicy != "") {
		return nil, fmt.Errorf("%w: only InfluxDB has databases and retention policies", ErrOptions)
	}
	w, err := newWeb(o)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "prometheus":
		return prometheus{w}, nil
	case "victoriametrics":
		return victoriaMetrics{w}, nil
	case "influxdb":
		return influxDB{w}, nil
	case "opentsdb", "ticktock":
		return openTSDB{w}, nil
	}
	return nil, fmt.Errorf("%w: unknown kind %q", ErrOptions, kind)
}

// Options describe a migration.
type Options struct {
	Source Source
	Client *client.Client
	Plan   Plan
	// FromMs and ToMs bound the samples, where there is no checkpoint yet. Without FromSet the source is asked when
	// its samples begin.
	FromMs, ToMs int64
	FromSet      bool
	Names        *regexp.Regexp // of the names; nil: all
	Checkpoint   string         // a file
	Check        bool           // compare afterwards
	// Delays are those between attempts at a step; zero means the default.
	Delays backoff.Exponential

	// Total, Done and Samples are told of progress: the parts there are, and what has been done since the last call.
	Total, Done, Samples func(int64)
}

// Report is what became of a migration.
type Report struct {
	Samples int64   `json:"samples"` // copied
	Checked int64   `json:"checked"` // samples of the source that were compared
	LeftOut LeftOut `json:"left_out"`
	// Differences are at most DifferencesKept of those that there are.
	Differences      []Difference `json:"differences,omitempty"`
	DifferencesTotal int64        `json:"differences_total"`
	Resumed          bool         `json:"-"` // a checkpoint was there
}

// DifferencesKept bounds the differences that are listed.
const DifferencesKept = 100

// Bounds of the work.
const (
	attemptsMax     = 10                      // at one step
	saveInterval    = time.Second             // between two checkpoints
	stepMsMin       = int64(1000)             // of a step that is halved
	dayMs           = int64(24 * 3600 * 1000) // to which the beginning of the samples is searched
	emptyWindowsMax = 1024                    // that are looked at together
	partsPerWindow  = int64(1000)             // of progress
	firstDelay      = 200 * time.Millisecond
	longestDelay    = 30 * time.Second
	batchPoints     = 20_000
	batchBytes      = 2 << 20
	seriesKnownMax  = 100_000
	flushSamplesMax = 500_000 // between two checkpoints
)

// migration is one while it runs.
type migration struct {
	Options
	checkpoint *checkpoint
	writer     *client.Writer
	known      map[string]*client.Series // of the cluster, by the source's key

	saved   time.Time // when the checkpoint was written
	unsaved int64     // samples since
	told    int64     // parts of the window that progress knows of
}

// Execute copies and compares. It returns what was done until then with an error, too. The checkpoint's file is gone when
// everything is done.
func Execute(ctx context.Context, o Options) (Report, error) {
	if o.Delays == (backoff.Exponential{}) {
		o.Delays = backoff.Exponential{Min: firstDelay, Max: longestDelay}
	}
	m := &migration{Options: o, known: map[string]*client.Series{}}
	found, err := loadCheckpoint(o.Checkpoint, o.Plan)
	if err != nil {
		return Report{}, err
	}
	if m.checkpoint = found; found == nil {
		if err := m.begin(ctx); err != nil {
			return Report{}, err
		}
	}
	m.checkpoint.Report.Resumed = found != nil
	c := m.checkpoint
	windows := (c.ToMs - c.FromMs) / c.Plan.StepMs
	if o.Check {
		windows *= 2
	}
	m.Total((windows + 1) * partsPerWindow)
	if !c.Checking {
		if err := m.copy(ctx); err != nil {
			return c.Report, err
		}
		c.Checking, c.WindowMs, c.Name = true, c.FromMs, ""
		if err := c.save(o.Checkpoint); err != nil {
			return c.Report, err
		}
	}
	if o.Check {
		if err := m.each(ctx, m.compare); err != nil {
			return c.Report, err
		}
	}
	return c.Report, os.Remove(o.Checkpoint)
}

// begin makes the first checkpoint.
func (m *migration) begin(ctx context.Context) error {
	fromMs := m.FromMs
	if !m.FromSet {
		var err error
		if fromMs, err = m.first(ctx); err != nil {
			return err
		}
	}
	if fromMs > m.ToMs {
		fromMs = m.ToMs
	}
	m.checkpoint = &checkpoint{Version: checkpointVersion, Plan: m.Plan, FromMs: fromMs, ToMs: m.ToMs, WindowMs: fromMs}
	return m.checkpoint.save(m.Checkpoint)
}

// first returns the beginning of the first day with samples.
func (m *migration) first(ctx context.Context) (int64, error) {
	begins := func(beforeMs int64) (yes bool, err error) {
		err = m.attempt(ctx, func() error {
			var ok bool
			if yes, ok, err = m.Source.Begins(ctx, beforeMs); err == nil && !ok {
				return fmt.Errorf("%w: %s cannot tell when its samples begin: say so by --start", ErrOptions, m.Plan.Kind)
			}
			return err
		})
		return yes, err
	}
	if yes, err := begins(dayMs); err != nil || yes {
		if err == nil {
			err = fmt.Errorf("%w: the source has samples of 1970, or its lists know no time: say by --start where to begin", ErrOptions)
		}
		return 0, err
	}
	if yes, err := begins(m.ToMs + 1); err != nil || !yes {
		return m.ToMs, err
	}
	low, high := int64(1), m.ToMs/dayMs+1 // there are none before day low; there are some before day high
	for high-low > 1 {
		middle := low + (high-low)/2
		yes, err := begins(middle * dayMs)
		if err != nil {
			return 0, err
		}
		if yes {
			high = middle
		} else {
			low = middle
		}
	}
	return low * dayMs, nil
}

// attempt makes attempts at f, until one succeeds or fails in a way that stays.
func (m *migration) attempt(ctx context.Context, f func() error) error {
	for failures := 1; ; failures++ {
		err := f()
		if err == nil || !errors.Is(err, errTemporary) || ctx.Err() != nil {
			return err
		}
		if failures >= attemptsMax {
			return fmt.Errorf("%w (after %d attempts; the same command goes on from here)", err, failures)
		}
		timer := time.NewTimer(m.Delays.Delay(failures))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// copy writes the samples of all steps that are not done.
func (m *migration) copy(ctx context.Context) (err error) {
	m.writer, err = m.Client.NewWriter(client.WriterOptions{BatchPoints: batchPoints, BatchBytes: batchBytes})
	if err != nil {
		return err
	}
	if err = m.each(ctx, m.copyStep); err == nil {
		err = m.save(ctx)
	}
	return errors.Join(err, m.writer.Close(ctx))
}

// each does all steps from the checkpoint on, and notes there which are done.
func (m *migration) each(ctx context.Context, step func(ctx context.Context, name string, fromMs, toMs int64) error) error {
	c := m.checkpoint
	windows := int64(1) // that are looked at together: more and more of them as long as they are empty
	for c.WindowMs <= c.ToMs {
		fromMs, toMs := c.WindowMs, min(c.WindowMs+windows*c.Plan.StepMs-1, c.ToMs)
		names, err := m.namesOf(ctx, fromMs, toMs)
		if err != nil {
			return err
		}
		if len(names) > 0 && windows > 1 {
			windows = 1
			continue
		}
		for i, name := range names {
			if name <= c.Name {
				continue
			}
			if err := step(ctx, name, fromMs, toMs); err != nil {
				return err
			}
			c.Name = name
			m.progress(int64(i+1) * partsPerWindow / int64(len(names)))
			if err := m.saveNow(ctx); err != nil {
				return err
			}
		}
		m.progress(windows * partsPerWindow)
		m.told = 0
		if len(names) == 0 {
			windows = min(2*windows, emptyWindowsMax)
		}
		c.WindowMs, c.Name = toMs+1, ""
		if err := m.saveNow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// namesOf returns the names that are wanted of a range, sorted.
func (m *migration) namesOf(ctx context.Context, fromMs, toMs int64) (names []string, err error) {
	err = m.attempt(ctx, func() (err error) {
		names, err = m.Source.Names(ctx, fromMs, toMs)
		return err
	})
	return slices.DeleteFunc(names, func(name string) bool { return m.Names != nil && !m.Names.MatchString(name) }), err
}

func (m *migration) progress(parts int64) {
	m.Done(parts - m.told)
	m.told = parts
}

// saveNow saves the checkpoint from time to time.
func (m *migration) saveNow(ctx context.Context) error {
	if m.unsaved < flushSamplesMax && time.Since(m.saved) < saveInterval {
		return nil
	}
	return m.save(ctx)
}

// save saves the checkpoint once everything that it tells of is written.
func (m *migration) save(ctx context.Context) error {
	if !m.checkpoint.Checking {
		if err := m.writer.Flush(ctx); err != nil {
			return err
		}
	}
	m.saved, m.unsaved = time.Now(), 0
	return m.checkpoint.save(m.Checkpoint)
}

// halved does a step, or, where that is too much for one of the two sides, its halves.
func (m *migration) halved(ctx context.Context, fromMs, toMs int64, do func(fromMs, toMs int64) error) error {
	err := m.attempt(ctx, func() error { return do(fromMs, toMs) })
	limit := (*scan.LimitError)(nil)
	if !errors.Is(err, errTooMuch) && !errors.As(err, &limit) || toMs-fromMs < stepMsMin {
		return err
	}
	middle := fromMs + (toMs-fromMs)/2
	if err := m.halved(ctx, fromMs, middle, do); err != nil {
		return err
	}
	return m.halved(ctx, middle+1, toMs, do)
}

// copyStep writes the samples of one step.
func (m *migration) copyStep(ctx context.Context, name string, fromMs, toMs int64) error {
	err := m.halved(ctx, fromMs, toMs, func(fromMs, toMs int64) error {
		count := int64(0)
		leftOut, err := m.read(ctx, name, fromMs, toMs, func(r Run) error {
			for i, ms := range r.TimesMs {
				if err := m.writer.Append(ctx, r.Series, ms, r.Values[i]); err != nil {
					return err
				}
			}
			count += int64(len(r.TimesMs))
			m.Samples(int64(len(r.TimesMs)))
			return nil
		})
		if err != nil {
			return err
		}
		m.checkpoint.Report.Samples += count
		m.checkpoint.Report.LeftOut.add(leftOut)
		m.unsaved += count
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// read visits the samples of a step as the cluster is to have them.
func (m *migration) read(ctx context.Context, name string, fromMs, toMs int64, visit Visitor) (LeftOut, error) {
	refused := int64(0)
	distinct := once{visit: func(r Run) error {
		s, err := m.seriesOf(r.Series)
		if err != nil {
			refused++
			return nil //nolint:nilerr // it is counted, and reported
		}
		r.Series = s
		return visit(r)
	}}
	leftOut, err := m.Source.Read(ctx, name, fromMs, toMs, distinct.Visit)
	if err == nil {
		err = distinct.End()
	}
	leftOut.Repeated += distinct.repeated
	leftOut.Series += refused
	return leftOut, err
}

// seriesOf returns the series of the cluster for one of the source.
func (m *migration) seriesOf(of *client.Series) (*client.Series, error) {
	if s, ok := m.known[string(of.Key())]; ok {
		return s, nil
	}
	s, err := client.NewSeriesIn(m.Plan.Database, of.Metric(), of.Tags()...)
	if err != nil {
		return nil, err
	}
	if len(m.known) >= seriesKnownMax {
		clear(m.known)
	}
	m.known[string(of.Key())] = s
	return s, nil
}

// compare compares one step of both sides.
func (m *migration) compare(ctx context.Context, name string, fromMs, toMs int64) error {
	var source, cluster Tally
	err := m.halved(ctx, fromMs, toMs, func(fromMs, toMs int64) error {
		var t Tally
		_, err := m.read(ctx, name, fromMs, toMs, func(r Run) error {
			t.add(r.Series.Key(), r.TimesMs, r.Values)
			m.Samples(int64(len(r.TimesMs)))
			return nil
		})
		if err == nil {
			source.merge(t)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	selector := scan.Selector{Database: m.Plan.Database, Metric: m.Source.Metric(name)}
	err = m.halved(ctx, fromMs, toMs, func(fromMs, toMs int64) error {
		var t Tally
		for chunk, err := range m.Client.Query(ctx, client.Query{Selector: selector, FromMs: fromMs, ToMs: toMs}) {
			if err != nil {
				return err
			}
			t.add(chunk.Series.Key(), chunk.TimesMs, chunk.Values)
		}
		cluster.merge(t)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s, in the cluster: %w", name, err)
	}
	r := &m.checkpoint.Report
	r.Checked += source.Samples
	if !source.same(&cluster) {
		if r.DifferencesTotal++; len(r.Differences) < DifferencesKept {
			r.Differences = append(r.Differences, newDifference(name, fromMs, toMs, &source, &cluster))
		}
	}
	return nil
}
