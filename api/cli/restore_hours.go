package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/series"
)

// rawTimes are the times since which a cluster keeps all samples of metrics.
type rawTimes struct {
	client *client.Client
	known  map[metricName]int64
}

// of returns the time of a metric, math.MinInt64 if all are kept. A server of an earlier version has no such hours that could be
// restored.
func (r *rawTimes) of(ctx context.Context, name metricName) (int64, error) {
	if ms, ok := r.known[name]; ok {
		return ms, nil
	}
	ms, err := r.client.RawFrom(ctx, name.database, name.metric)
	if errors.Is(err, client.ErrVersion) {
		ms, err = math.MinInt64, nil
	}
	if err != nil {
		return 0, fmt.Errorf("since when all samples of metric %q of database %q are kept: %w", name.metric, name.database, err)
	}
	r.known[name] = ms
	return ms, nil
}

// errAllKept refuses to write hours of which a backup has rollups where all samples are kept: windows there would tell of the last
// samples alone.
var errAllKept = errors.New("of these hours the backup has rollups and the last samples, which can be restored before the time of raw only. Set raw for the database " +
	"in the databases file of routers and nodes as it was, or write the last samples alone with --last-samples")

// checkHours returns an error if the backup has hours which the cluster would not take with their rollups.
func (r *restore) checkHours(ctx context.Context) error {
	units := r.backup.Units()
	for i := range units {
		u := &units[i]
		if !u.Hours || r.lastSamples {
			continue
		}
		rawMs, err := r.raw.of(ctx, rangeOf(u).metricName)
		if err != nil {
			return err
		}
		if u.ToMs >= rawMs {
			return fmt.Errorf("metric %q of database %q, hours from %s to %s: %w", u.Metric, access.Display(string(u.Database)),
				time.UnixMilli(u.FromMs).UTC().Format(time.RFC3339), time.UnixMilli(u.ToMs).UTC().Format(time.RFC3339), errAllKept)
		}
	}
	return nil
}

// hourWriter writes hours: those of a backup, and those that it puts together of all their samples.
type hourWriter struct {
	ctx   context.Context //nolint:containedctx // of one restore
	write func(context.Context, ...client.Hour) error
	known *importer
	held  []client.Hour
	count int64

	// The hour that is put together.
	open   bool
	key    string
	series *client.Series
	hour   series.Hour
	piece  bool // others of its samples may come elsewhere
	pieces hourPieces
}

const hoursHeldMax = 5000

func (w *hourWriter) add(h client.Hour) error {
	w.count++
	if w.held = append(w.held, h); len(w.held) < hoursHeldMax {
		return nil
	}
	return w.send()
}

func (w *hourWriter) send() error {
	// In a new cluster it takes minutes until all nodes know that such hours may come.
	err := again(w.ctx, func() error { return w.write(w.ctx, w.held...) })
	w.held = w.held[:0]
	return err
}

// flush writes what is held.
func (w *hourWriter) flush() error {
	if err := w.leave(); err != nil {
		return err
	}
	if err := w.pieces.all(w.addOf); err != nil {
		return err
	}
	return w.send()
}

// begin begins a part of a unit of samples.
func (w *hourWriter) begin(u *archive.Unit) error {
	follows := w.pieces.unit == u && u.InOrder()
	if !follows {
		if err := w.leave(); err != nil {
			return err
		}
	}
	return w.pieces.begin(u, follows, w.addOf)
}

// leave ends the part that was begun: its last hour may go on in another one.
func (w *hourWriter) leave() error {
	if u := w.pieces.unit; u != nil && len(u.Parts) > 1 {
		w.piece = true
	}
	return w.end()
}

// addOf adds an hour of the series of a key.
func (w *hourWriter) addOf(key string, h series.Hour) error {
	s, err := w.known.seriesOf(series.Key(key))
	if err != nil {
		return err
	}
	if !h.Fits() {
		h = lastOnly(h)
	}
	return w.add(client.Hour{Series: s, Hour: h})
}

// visit takes samples of a unit of hours, which may come in pieces, and writes those before rawMs.
func (w *hourWriter) visit(rawMs int64) archive.Visitor {
	var key series.Key
	var times []int64
	var values []float64
	return func(of series.Key, timesMs []int64, numbers []float64) error {
		for i, ms := range timesMs {
			if len(times) > 0 && (string(key) != string(of) || startOf(ms, series.HourMs) != startOf(times[0], series.HourMs)) {
				times, values = times[:0], values[:0]
			}
			key = append(key[:0], of...)
			times, values = append(times, ms), append(values, numbers[i])
			_, marked := series.MarkedHour(times[0], values[0])
			if marked && len(times) < series.HourSamplesMax {
				continue
			}
			h, ok := series.HourOfSamples(times, values)
			if !ok {
				h = lastOnly(series.Hour{StartMs: startOf(ms, series.HourMs), TimeMs: ms, Value: numbers[i]})
			}
			s, err := w.known.seriesOf(of)
			if err == nil && h.StartMs < rawMs {
				err = w.add(client.Hour{Series: s, Hour: h})
			}
			if err != nil {
				return err
			}
			times, values = times[:0], values[:0]
		}
		return nil
	}
}

// sample takes a sample of the part that was begun. Those of a series come one after the other, in order of time.
func (w *hourWriter) sample(s *client.Series, key series.Key, ms int64, v float64) error {
	if hourMs := startOf(ms, series.HourMs); !w.open || w.hour.StartMs != hourMs || w.key != string(key) {
		if err := w.end(); err != nil {
			return err
		}
		w.open, w.key, w.series, w.hour = true, string(key), s, series.Hour{StartMs: hourMs}
		w.piece = w.pieces.divides(hourMs)
	}
	h := &w.hour
	h.TimeMs, h.Value = ms, v
	if math.IsNaN(v) {
		return nil
	}
	if h.Count == 0 {
		h.Min, h.Max, h.First = v, v, v
	}
	if v < h.Min {
		h.Min = v
	}
	if v > h.Max {
		h.Max = v
	}
	h.Count, h.Sum, h.Last = h.Count+1, h.Sum+v, v
	return nil
}

// end passes on the hour that is put together.
func (w *hourWriter) end() error {
	if !w.open {
		return nil
	}
	w.open = false
	h := w.hour
	if w.piece {
		w.pieces.hold(w.key, h)
		return nil
	}
	if !h.Fits() {
		h = lastOnly(h)
	}
	return w.add(client.Hour{Series: w.series, Hour: h})
}
