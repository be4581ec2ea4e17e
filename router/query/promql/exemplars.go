package promql

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/decimal"
)

// exemplarSeries is a series with its exemplars.
type exemplarSeries struct {
	labels    labels.Labels
	exemplars []series.Exemplar
}

// exemplars serves /api/v1/query_exemplars: those of the series that the selectors of an expression pick, by the labels of the series. They are
// whole and new, whatever consistency is asked for.
func (h *handler) exemplars(x *exchange) error {
	start, err := timeParameter(x.form, "start", timeMin)
	if err != nil {
		return err
	}
	end, err := timeParameter(x.form, "end", timeMax)
	if err != nil {
		return err
	}
	if end.Before(start) {
		return badData(errEndBeforeStart)
	}
	expr, err := h.expression(x, badData)
	if err != nil {
		return err
	}
	found := exemplarsFound{x: x, seen: map[string]int{}}
	for _, matchers := range parser.ExtractSelectors(expr) {
		if h.options.Exemplars == nil {
			break
		}
		selectors, err := selectorsOf(x.ctx, x.reader.Source, x.database, matchers)
		if err != nil {
			return err
		}
		for i := range selectors {
			found.round++
			if x.isOfSeveral() {
				selectors[i] = below(&selectors[i])
			}
			err := h.options.Exemplars.Exemplars(x.ctx, &selectors[i], max(start.UnixMilli(), scan.TimeMsMin), min(end.UnixMilli(), scan.TimeMsMax), found.add)
			if err != nil {
				return fromSource(err)
			}
		}
	}
	slices.SortFunc(found.all, func(a, b exemplarSeries) int { return labels.Compare(a.labels, b.labels) })
	x.out.exemplars(found.all)
	return nil
}

// isOfSeveral reports whether a request means several databases, whose series have a label that tells them apart.
func (x *exchange) isOfSeveral() bool { return len(x.databases) > 1 }

// exemplarsFound gathers what selectors find, on account of a request.
type exemplarsFound struct {
	x      *exchange
	round  int            // the selector that is being asked, from 1
	seen   map[string]int // by key: the selector that has found the series
	all    []exemplarSeries
	naming naming
	keys   tenanting
}

// add implements the visitor of scan.ExemplarSource. A series that an earlier selector has found is passed over.
func (f *exemplarsFound) add(e *series.Exemplar) error {
	round, known := f.seen[string(e.Key)]
	if known && round != f.round {
		return nil
	}
	const exemplarBytes, labelBytes = 64, 32
	bytes := int64(exemplarBytes)
	for i := range e.Labels {
		bytes += labelBytes + int64(len(e.Labels[i].Name)+len(e.Labels[i].Value))
	}
	if !known {
		bytes += 4 * int64(len(e.Key))
	}
	if err := f.x.entry.Take(bytes); err != nil {
		return err
	}
	another := int64(0)
	if !known {
		another = 1
	}
	if err := f.x.entry.Count(another, 1); err != nil {
		return err
	}
	if !known {
		f.seen[string(e.Key)] = f.round
		key := e.Key
		if f.x.isOfSeveral() {
			var err error
			if key, err = f.keys.keyOf(key); err != nil {
				return err
			}
		}
		named, err := f.naming.labels(key)
		if err != nil {
			return err
		}
		f.all = append(f.all, exemplarSeries{labels: named})
	}
	of := &f.all[len(f.all)-1]
	of.exemplars = append(of.exemplars, *e)
	return nil
}

// exemplars writes the answer, as Prometheus does.
func (e *encoder) exemplars(all []exemplarSeries) {
	e.begin()
	e.buf = append(e.buf, '[')
	for i := range all {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(e.buf, `{"seriesLabels":`...)
		e.labels(all[i].labels)
		e.buf = append(e.buf, `,"exemplars":[`...)
		for n := range all[i].exemplars {
			if n > 0 {
				e.buf = append(e.buf, ',')
			}
			e.exemplar(&all[i].exemplars[n])
			e.flushIfLong()
		}
		e.buf = append(e.buf, ']', '}')
	}
	e.buf = append(e.buf, ']')
	e.end(nil, nil)
}

func (e *encoder) exemplar(x *series.Exemplar) {
	e.buf = append(e.buf, `{"labels":{`...)
	for i := range x.Labels {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.text(x.Labels[i].Name)
		e.buf = append(e.buf, ':')
		e.text(x.Labels[i].Value)
	}
	e.buf = append(e.buf, `},"value":"`...)
	e.buf = decimal.Append(e.buf, x.Value)
	e.buf = append(e.buf, `","timestamp":`...)
	e.buf = append(appendTime(e.buf, x.TimeMs), '}')
}
