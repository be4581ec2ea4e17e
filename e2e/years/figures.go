package years

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Figure is one value of each day.
type Figure struct {
	Name, Unit string
	// Follows reports whether the figure is claimed to follow what is live and retained. What does not, and what
	// depends on the speed of the machine, is written down only; Why tells.
	Follows bool
	Why     string
	Slack   float64 // by which two weeks may differ by chance, where there are few
	Values  []float64
}

// Figures are all of them.
type Figures []Figure

const (
	whySpeed = "depends on the machine"
	// Of series that are forgotten the series table keeps places and numbers, but no keys: ARCHITECTURE.md, "Known limits".
	whyForgets = "the series table keeps ten bytes of a forgotten series"
	whyEver    = "counts what ever was"
)

const (
	// mergesSlack is by how many segments the means of two weeks of the short life differ by when merges happen to be done, which goroutines
	// do beside the virtual clock: within a week their number goes up and down by twice as many. A long life has thousands.
	mergesSlack = 30
	// keysSlack is what the file of keys may have behind its last block that is whole: of that nothing is given back.
	keysSlack = 256 << 10
	// manifestSegmentBytes is what the manifest has for a segment.
	manifestSegmentBytes = 520
)

func newFigures() Figures {
	claim := func(name, unit, why string) Figure {
		return Figure{Name: name, Unit: unit, Follows: why == "", Why: why}
	}
	few := func(f Figure, slack float64) Figure {
		f.Slack = slack
		return f
	}
	return Figures{
		claim("series live", "", ""),
		claim("samples live", "", ""),
		claim("series ever", "", whyEver),
		claim("series with keys", "", ""),
		claim("index memory", "bytes", whyForgets),
		claim("index mapped", "bytes", whyForgets),
		claim("series table", "bytes", whyForgets),
		few(claim("keys", "bytes", ""), keysSlack),
		few(claim("files", "", ""), mergesSlack),
		claim("disk, without the series table", "bytes", ""),
		few(claim("segments", "", ""), mergesSlack),
		claim("segments, size", "bytes", ""),
		claim("log", "bytes", ""),
		few(claim("manifest", "bytes", ""), mergesSlack*manifestSegmentBytes),
		few(claim("tombstones", "", ""), 3),
		claim("heap", "bytes", "has the oracle and the disk in memory, too"),
		claim("start", "ms", whySpeed),
		claim("start, replayed", "bytes", "depends on the hour of the last restart"),
		claim("newest pods", "samples read", ""),
		claim("newest pods", "ms", whySpeed),
		claim("devices by hour", "samples read", ""),
		claim("devices by hour", "ms", whySpeed),
		claim("history by day", "samples read", ""),
		claim("history by day", "ms", whySpeed),
	}
}

// measure writes down a day.
func (y *Life) measure() error {
	var u Usage
	for _, m := range y.machines {
		if err := u.walk(m.disk.FS(), m.disk.Dir()); err != nil {
			return fmt.Errorf("walk the data folder: %w", err)
		}
	}
	m, err := y.metrics()
	if err != nil {
		return err
	}
	// A batch that names a series which is forgotten after it was encoded, and before it is applied, is refused and sent
	// again: see Batch.send. Its entry counts as invalid.
	invalid, forgotten := m["tickmesh_entries_invalid_total"], m["tickmesh_batches_forgotten_total"]
	if m["tickmesh_retention_held"] != 0 || m["tickmesh_damages_total"] != 0 || invalid > forgotten {
		return fmt.Errorf("%w: retention held %v, damages %v, invalid entries %v, with %v batches of forgotten series", ErrWrong,
			m["tickmesh_retention_held"], m["tickmesh_damages_total"], invalid, forgotten)
	}
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	values := []float64{
		float64(len(y.Oracle.Lines)), float64(y.Oracle.Samples()), m["tickmesh_series"], m["tickmesh_series"] - m["tickmesh_series_keyless"],
		m["tickmesh_index_table_bytes"] + m["tickmesh_index_postings_bytes"], m["tickmesh_index_persisted_bytes"], float64(u.TableBytes), float64(u.KeysBytes),
		float64(u.Files), float64(u.Bytes - u.TableBytes), m["tickmesh_segments"], float64(u.SegmentBytes), float64(u.LogBytes),
		float64(u.ManifestBytes), m["tickmesh_tombstones"], float64(heap.HeapInuse),
		ms(y.start.took), float64(y.start.bytes),
	}
	for _, q := range y.questions() {
		work, took, err := y.ask(q)
		if err != nil {
			return err
		}
		values = append(values, work, took)
	}
	for i := range y.Figures {
		y.Figures[i].Values = append(y.Figures[i].Values, values[i])
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// questions are the same each day. None may look at more series than live, and a few more.
func (y *Life) questions() []*scan.Request {
	now := y.Clock.NowMs()
	hours := scan.Windows{WidthMs: hourMs, Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMax}
	days := hours
	days.WidthMs = dayMs
	return []*scan.Request{
		{Selector: of(metricPod), FromMs: now - hourMs, ToMs: now, Limits: scan.Limits{SeriesMax: int64(4 * y.Config.Pods)}},
		{Selector: of(metricDevice), FromMs: floorDay(now) - 2*dayMs, ToMs: floorDay(now) - 1, Windows: &hours, Limits: scan.Limits{SeriesMax: int64(y.Config.Devices)}},
		{Selector: of(metricHistory), FromMs: floorDay(now) - int64(y.Config.HistoryDays-2)*dayMs, ToMs: floorDay(now) - 1, Windows: &days, Limits: scan.Limits{SeriesMax: int64(y.Config.History)}},
	}
}

// asked is how often a question is asked a day; its time is the shortest.
const asked = 3

// ask asks a question, and returns the samples and rollups that were read for it, and the time.
func (y *Life) ask(q *scan.Request) (work, took float64, err error) {
	before, err := y.metrics()
	if err != nil {
		return 0, 0, err
	}
	took = math.Inf(1)
	for range asked {
		begin := time.Now()
		if err := y.store.Scan(y.context(), q, func(int, *scan.Chunk) error { return nil }); err != nil {
			return 0, 0, fmt.Errorf("a question about %s: %w", q.Metric, err)
		}
		took = min(took, ms(time.Since(begin)))
	}
	after, err := y.metrics()
	for _, name := range []string{"tickmesh_scanned_samples_total", "tickmesh_scanned_rollups_total"} {
		work += after[name] - before[name]
	}
	return work / asked, took, err
}

func (y *Life) context() context.Context { return context.Background() }

// metrics returns the nodes' own figures by name, of all together.
func (y *Life) metrics() (map[string]float64, error) {
	m := map[string]float64{}
	for _, of := range y.machines {
		registry := prometheus.NewRegistry()
		if err := registry.Register(of.node); err != nil {
			return nil, fmt.Errorf("register the node's metrics: %w", err)
		}
		families, err := registry.Gather()
		if err != nil {
			return nil, fmt.Errorf("gather the node's metrics: %w", err)
		}
		for _, f := range families {
			one := f.Metric[len(f.Metric)-1]
			m[f.GetName()] += one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
	}
	return m, nil
}

// mean returns the mean of some days from one on.
func (f *Figure) mean(day, days int) float64 {
	sum := 0.0
	for _, v := range f.Values[day : day+days] {
		sum += v
	}
	return sum / float64(days)
}

// monthDays are the days of a month of a long life, and monthsFrom says which lives are long.
const monthDays, monthsFrom = 30, 3 * 30

// Period returns what is compared with what: the second week with the last one, and of a long life the second month with the last one.
func (f *Figure) Period() (name string, days int) {
	if len(f.Values) >= monthsFrom {
		return "month", monthDays
	}
	return "week", weekDays
}

// Periods returns the means of the second period and of the last one.
func (f *Figure) Periods() (second, last float64) {
	_, days := f.Period()
	return f.mean(days, days), f.mean(len(f.Values)-days, days)
}

// driftMax is by how much the last period's mean may differ from that of the second.
const driftMax = 0.2

// Drift returns an error for each claimed figure whose last period is not like its second. Quiet says that the machine did
// nothing else: then times are claimed, too, and may not grow.
func (fs Figures) Drift(quiet bool) error {
	var problems []error
	for i := range fs {
		f := &fs[i]
		name, _ := f.Period()
		second, last := f.Periods()
		drifts := f.Follows && math.Abs(last-second) > driftMax*second+f.Slack ||
			quiet && f.Why == whySpeed && last > second*(1+driftMax)
		if drifts {
			problems = append(problems, fmt.Errorf("%s: %s in the last %s, %s in the second", f.title(), number(last), name, number(second)))
		}
	}
	return errors.Join(problems...)
}

func (f *Figure) title() string {
	if f.Unit == "" {
		return f.Name
	}
	return f.Name + " (" + f.Unit + ")"
}

// WriteTable writes the periods' means as a table in Markdown.
func (fs Figures) WriteTable(w io.Writer) {
	name, _ := fs[0].Period()
	fmt.Fprintf(w, "| figure | second %s | last %s | change | follows what is live |\n", name, name)
	fmt.Fprintln(w, "|---|---:|---:|---:|---|")
	for i := range fs {
		f := &fs[i]
		second, last := f.Periods()
		change, follows := "–", "claimed"
		if second > 0 {
			change = fmt.Sprintf("%+.0f %%", 100*(last/second-1))
		}
		if !f.Follows {
			follows = "no: " + f.Why
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", f.title(), number(second), number(last), change, follows)
	}
}

// number writes a figure for people.
func number(v float64) string {
	if v < 100 && v != math.Trunc(v) {
		return fmt.Sprintf("%.1f", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}
