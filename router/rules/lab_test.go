package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/promql"
)

// lab is a storage in memory that rules read from and write to as they do in a server: by the engine, admission
// control and the parser of remote writes.
type lab struct {
	memory *scantest.Memory
	api    *promql.API
	// fails is the error of the next writes, one after the other.
	fails chan error
	// wrote is called with the name of who writes and the times of the samples; nil: nobody is.
	wrote func(who string, timesMs []int64)
}

func newLab(t testing.TB) *lab {
	t.Helper()
	control := admission.New(admission.Options{})
	l := &lab{memory: scantest.NewMemory(), fails: make(chan error, 16)}
	l.api = promql.New(promql.Options{Source: control.Source(l.memory), Admission: control, Parallel: 1})
	return l
}

// put writes a sample of a series with such labels.
func (l *lab) put(t testing.TB, database string, of labels.Labels, at time.Time, v float64) {
	t.Helper()
	a := &appender{appendable: &appendable{database: database, writer: labWriter{l, ""}, final: func(error) bool { return true }}, ctx: t.Context()}
	if _, err := a.Append(0, of, at.UnixMilli(), v); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(); err != nil {
		t.Fatal(err)
	}
}

// labWriter writes to a lab.
type labWriter struct {
	*lab
	who string
}

// WriteRules implements Writer.
func (w labWriter) WriteRules(ctx context.Context, database string, request []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case err := <-w.fails:
		return err
	default:
	}
	var b parse.Batch
	if err := parse.RemoteWrite(&b, request, parse.RemoteWrite1, parse.Limits{}); err != nil {
		return err
	}
	var keys parse.KeyBuilder
	var times []int64
	for i := range b.Lines {
		line := &b.Lines[i]
		if err := keys.Start(&b, line, []byte(database), parse.Limits{}); err != nil {
			return fmt.Errorf("%w: %w", errFinal, err)
		}
		key, err := keys.Key(nil, false)
		if err != nil {
			return err
		}
		for _, p := range b.Points[line.First : line.First+line.Count] {
			if err := w.memory.Put(key, series.Sample{TimeMs: p.TimeMs, Value: series.Float64(p.Mantissa, p.Scale)}); err != nil {
				return err
			}
			times = append(times, p.TimeMs)
		}
	}
	if w.wrote != nil {
		w.wrote(w.who, times)
	}
	return nil
}

// errFinal is an error that no other try cures.
var errFinal = errors.New("refused")

// options are those of a service on a lab.
func (l *lab) options(patterns ...Pattern) Options {
	return Options{Patterns: patterns, Final: func(err error) bool { return errors.Is(err, errFinal) }}
}

// samples returns all samples of a database whose metric does not begin with "in_", as lines with the bits of values.
func (l *lab) samples(t testing.TB, database string) []string {
	t.Helper()
	all, err := scantest.Collect(t.Context(), l.memory, &scan.Request{
		Selector: scan.Selector{Database: database, MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Parallel: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for key, chunk := range all {
		_, metric, tags, err := series.Key(key).Parts(nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(metric), "in_") {
			continue
		}
		b := labels.NewScratchBuilder(0)
		b.Add(model.MetricNameLabel, string(metric))
		for _, tag := range tags {
			b.Add(string(tag.Name), string(tag.Value))
		}
		b.Sort()
		for i, at := range chunk.Times {
			lines = append(lines, sampleLine(b.Labels(), at, chunk.Values[i]))
		}
	}
	slices.Sort(lines)
	return lines
}

func sampleLine(of labels.Labels, timeMs int64, v float64) string {
	return fmt.Sprintf("%s %d %#x %v", of, timeMs, math.Float64bits(v), v)
}

// writeRules writes a file of rules.
func writeRules(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "\t", "  ")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func rulesFile(t testing.TB, text string) string {
	t.Helper()
	return writeRules(t, filepath.Join(t.TempDir(), "rules.yaml"), text)
}
