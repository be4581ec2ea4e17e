package promql

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/tickmesh/tickmesh/api/scan"
)

// querier returns the querier of a request that asks for no samples.
func (h *handler) querier(x *exchange, l *listing) *querier {
	source := scan.Between(x.reader.Source, l.fromMs, l.toMs)
	return &querier{queryable: &queryable{source: source, database: x.database, parallel: h.options.Parallel}}
}

// listing is what the requests for names and series share.
type listing struct {
	limit        int // 0: none but the handler's
	more         int // one more than may be answered, to see that there are more
	matchers     [][]*labels.Matcher
	fromMs, toMs int64
}

func (h *handler) listing(x *exchange) (l listing, err error) {
	if l.limit, err = limitParameter(x.form); err != nil {
		return l, err
	}
	if l.fromMs, l.toMs, err = rangeParameters(x.form); err != nil {
		return l, err
	}
	if l.limit == 0 || l.limit > h.options.NamesMax {
		l.limit = h.options.NamesMax
	}
	l.more = min(l.limit, math.MaxInt-1) + 1
	l.matchers, err = h.selectors(x)
	return l, err
}

// series serves /api/v1/series.
func (h *handler) series(x *exchange) error {
	if len(x.form["match[]"]) == 0 {
		return badData(errors.New("no match[] parameter provided"))
	}
	l, err := h.listing(x)
	if err != nil {
		return err
	}
	found, err := h.querier(x, &l).series(x.ctx, l.matchers, l.more)
	if err != nil {
		return err
	}
	warnings := h.tellMissing(x)
	if len(found) > l.limit {
		found = found[:l.limit]
		warnings = append(warnings, truncatedText)
	}
	e := x.out
	e.begin()
	e.buf = append(e.buf, '[')
	for i := range found {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.labels(found[i])
		e.flushIfLong()
	}
	e.buf = append(e.buf, ']')
	e.end(warnings, nil)
	return nil
}

// labelNames serves /api/v1/labels.
func (h *handler) labelNames(x *exchange) error {
	l, err := h.listing(x)
	if err != nil {
		return err
	}
	q := h.querier(x, &l)
	return h.answerNames(x, l, func(hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, error) {
		names, _, err := q.LabelNames(x.ctx, hints, matchers...)
		return names, err
	})
}

// labelValues serves /api/v1/label/NAME/values.
func (h *handler) labelValues(x *exchange) error {
	name := labelOf(x.r.URL.Path)
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return badData(fmt.Errorf("invalid label name: %q", name))
	}
	l, err := h.listing(x)
	if err != nil {
		return err
	}
	q := h.querier(x, &l)
	return h.answerNames(x, l, func(hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, error) {
		values, _, err := q.LabelValues(x.ctx, name, hints, matchers...)
		return values, err
	})
}

// answerNames lists names for each set of matchers and answers all of them, in order.
func (h *handler) answerNames(x *exchange, l listing, list func(*storage.LabelHints, ...*labels.Matcher) ([]string, error)) error {
	hints := &storage.LabelHints{Limit: l.more}
	sets := l.matchers
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	var names []string
	for _, set := range sets {
		found, err := list(hints, set...)
		if err != nil {
			return err
		}
		names = append(names, found...)
	}
	if len(sets) > 1 {
		slices.Sort(names)
		names = slices.Compact(names)
	}
	warnings := h.tellMissing(x)
	if len(names) > l.limit {
		names = names[:l.limit]
		warnings = append(warnings, truncatedText)
	}
	x.out.begin()
	x.out.texts(names)
	x.out.end(warnings, nil)
	return nil
}
