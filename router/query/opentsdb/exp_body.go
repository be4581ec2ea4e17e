package opentsdb

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// expBody is the body of /api/query/exp (net.opentsdb.query.pojo.Query).
type expBody struct {
	Name        looseText       `json:"name"`
	Time        *expTime        `json:"time"`
	Filters     []expFilter     `json:"filters"`
	Metrics     []expMetric     `json:"metrics"`
	Expressions []expExpression `json:"expressions"`
	Outputs     []expOutput     `json:"outputs"`
}

type expTime struct {
	Start       looseText       `json:"start"`
	End         looseText       `json:"end"`
	Timezone    looseText       `json:"timezone"`
	Downsampler *expDownsampler `json:"downsampler"`
	Aggregator  looseText       `json:"aggregator"`
	Rate        looseBool       `json:"rate"`
}

type expDownsampler struct {
	Interval   looseText `json:"interval"`
	Aggregator looseText `json:"aggregator"`
	FillPolicy *expFill  `json:"fillPolicy"`
}

// expFill is what stands where a value is missing (NumericFillPolicy).
type expFill struct {
	Policy looseText `json:"policy"`
	Value  looseText `json:"value"`
	value  float64   // what it comes to
}

type expFilter struct {
	ID           looseText    `json:"id"`
	Tags         []filterBody `json:"tags"`
	ExplicitTags looseBool    `json:"explicitTags"`
}

type expMetric struct {
	ID         looseText `json:"id"`
	Metric     looseText `json:"metric"`
	Filter     looseText `json:"filter"`
	Aggregator looseText `json:"aggregator"`
	FillPolicy *expFill  `json:"fillPolicy"`
	TimeOffset looseText `json:"timeOffset"`
}

type expExpression struct {
	ID         looseText `json:"id"`
	Expr       looseText `json:"expr"`
	Join       *expJoin  `json:"join"`
	FillPolicy *expFill  `json:"fillPolicy"`
	formula    *formula
}

type expJoin struct {
	Operator       looseText  `json:"operator"`
	UseQueryTags   looseBool  `json:"useQueryTags"`
	IncludeAggTags *looseBool `json:"includeAggTags"` // nil: true
}

type expOutput struct {
	ID    looseText `json:"id"`
	Alias looseText `json:"alias"`
}

// settle checks a fill policy and computes its value.
func (f *expFill) settle() error {
	if f == nil {
		return nil
	}
	v := 0.0
	if f.Value != "" {
		var err error
		if v, err = strconv.ParseFloat(string(f.Value), 64); err != nil || math.IsInf(v, 0) {
			return invalid("Invalid value of a fill policy: %s", f.Value)
		}
	}
	nothing := v == 0 || v != v
	switch strings.ToLower(string(f.Policy)) {
	case "":
		f.Policy, f.value = "scalar", v
		if v == 0 {
			f.Policy = "zero"
		} else if v != v {
			f.Policy = "nan"
		}
		return nil
	case "none", "nan", "null":
		if f.value = math.NaN(); !nothing {
			return invalid("The value for NONE, NAN and NULL must be NaN")
		}
	case "zero":
		if v != 0 {
			return invalid("The value for ZERO must be 0")
		}
	case "scalar":
		f.value = v
	default:
		return invalid("Unrecognized fill policy: %s", f.Policy)
	}
	f.Policy = looseText(strings.ToLower(string(f.Policy)))
	return nil
}

// downsample gives the specification that a sub-query has. The policy none leaves
// windows without a sample out.
func (d *expDownsampler) downsample() (string, error) {
	switch {
	case d == nil:
		return "", nil
	case d.Interval == "":
		return "", invalid("Missing or empty interval")
	case d.Aggregator == "":
		return "", invalid("Missing or empty aggregator")
	}
	text := string(d.Interval) + "-" + string(d.Aggregator)
	if d.FillPolicy == nil {
		return text, nil
	}
	if err := d.FillPolicy.settle(); err != nil {
		return "", err
	}
	text += "-" + string(d.FillPolicy.Policy)
	if d.FillPolicy.Policy == "scalar" {
		text += "(" + strconv.FormatFloat(d.FillPolicy.value, 'g', -1, 64) + ")"
	}
	return text, nil
}

// checkID says whether a text can name a metric, a filter or an expression
// (net.opentsdb.query.pojo.Query.validateId).
func checkID(id looseText) error {
	if id == "" {
		return invalid("The ID cannot be null or empty")
	}
	for _, c := range id {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return invalid("Invalid id (\"%s\"): illegal character: %c", id, c)
		}
	}
	if len(id) == 1 && unicode.IsDigit(rune(id[0])) {
		return invalid("The ID cannot be an integer")
	}
	return nil
}

// expQuery is a checked request of /api/query/exp.
type expQuery struct {
	body expBody
	data dataQuery      // a sub-query for each metric
	ids  map[string]int // of metrics, then of expressions: places in both lists, one after the other
}

// parseExp reads and checks the body of /api/query/exp.
func parseExp(body []byte, database string, now time.Time, partsMax int64) (*expQuery, error) {
	q := &expQuery{ids: map[string]int{}}
	b := &q.body
	if err := json.Unmarshal(body, b); err != nil {
		return nil, badContent(err)
	}
	if b.Time == nil {
		return nil, invalid("missing time")
	}
	if len(b.Metrics) == 0 {
		return nil, invalid("missing or empty metrics")
	}
	for _, n := range []int{len(b.Metrics) + len(b.Expressions), len(b.Filters), len(b.Outputs)} {
		if partsMax > 0 && int64(n) > partsMax {
			return nil, invalid("%d metrics and expressions, filters or outputs are more than %d", n, partsMax)
		}
	}
	if err := q.settleFilters(); err != nil {
		return nil, err
	}
	if err := q.settleMetrics(); err != nil {
		return nil, err
	}
	if err := q.settleExpressions(); err != nil {
		return nil, err
	}
	if err := q.settleOutputs(); err != nil {
		return nil, err
	}
	return q, q.data.settle(string(b.Time.Start), string(b.Time.End), string(b.Time.Timezone), false, database, now, partsMax)
}

func (q *expQuery) settleFilters() error {
	for i, f := range q.body.Filters {
		if err := checkID(f.ID); err != nil {
			return err
		}
		if slices.ContainsFunc(q.body.Filters[:i], func(other expFilter) bool { return other.ID == f.ID }) {
			return invalid("duplicated filter id: %s", f.ID)
		}
	}
	return nil
}

// settleMetrics makes a sub-query of each metric.
func (q *expQuery) settleMetrics() error {
	t := q.body.Time
	downsample, err := t.Downsampler.downsample()
	if err != nil {
		return err
	}
	if t.Aggregator == "" {
		return invalid("Missing or empty aggregator")
	}
	for i := range q.body.Metrics {
		m := &q.body.Metrics[i]
		if err := checkID(m.ID); err != nil {
			return err
		}
		if _, ok := q.ids[string(m.ID)]; ok {
			return invalid("duplicated metric id: %s", m.ID)
		}
		q.ids[string(m.ID)] = i
		if m.Metric == "" {
			return invalid("missing or empty metric")
		}
		if m.TimeOffset != "" {
			return invalid("The timeOffset of a metric is not implemented, neither here nor in OpenTSDB, which ignores it")
		}
		if err := m.FillPolicy.settle(); err != nil {
			return err
		}
		sub := subBody{Metric: m.Metric, Aggregator: m.Aggregator, Downsample: looseText(downsample), Rate: t.Rate}
		if sub.Aggregator == "" {
			sub.Aggregator = t.Aggregator
		}
		if m.Filter != "" {
			at := slices.IndexFunc(q.body.Filters, func(f expFilter) bool { return f.ID == m.Filter })
			if at < 0 {
				return invalid("unrecognized filter id %s in metric %s", m.Filter, m.ID)
			}
			sub.Filters, sub.ExplicitTags = q.body.Filters[at].Tags, q.body.Filters[at].ExplicitTags
		}
		parsed, err := sub.parse()
		if err != nil {
			return err
		}
		q.data.subs = append(q.data.subs, parsed)
	}
	return nil
}

func (q *expQuery) settleExpressions() error {
	for i := range q.body.Expressions {
		e := &q.body.Expressions[i]
		if err := checkID(e.ID); err != nil {
			return err
		}
		if _, ok := q.ids[string(e.ID)]; ok {
			return invalid("Duplicated variable or expression id: %s", e.ID)
		}
		q.ids[string(e.ID)] = len(q.body.Metrics) + i
		if e.Expr == "" {
			return invalid("missing or empty expr")
		}
		if e.Join != nil && !strings.EqualFold(string(e.Join.Operator), "union") && !strings.EqualFold(string(e.Join.Operator), "intersection") {
			return invalid("Unrecognized set operator: %s", e.Join.Operator)
		}
		if err := e.FillPolicy.settle(); err != nil {
			return err
		}
		var err error
		if e.formula, err = parseFormula(string(e.Expr)); err != nil {
			return err
		}
	}
	for _, e := range q.body.Expressions {
		for _, name := range e.formula.variables {
			if _, ok := q.ids[name]; !ok {
				return invalid("Expression [%s] was missing input %s", e.Expr, name)
			}
		}
	}
	return q.checkOrder()
}

// checkOrder refuses expressions that need their own result.
func (q *expQuery) checkOrder() error {
	const (
		unseen = iota
		entered
		left
	)
	states := make([]int, len(q.body.Expressions))
	var visit func(i int) error
	visit = func(i int) error {
		e := &q.body.Expressions[i]
		states[i] = entered
		for _, name := range e.formula.variables {
			at := q.ids[name] - len(q.body.Metrics)
			switch {
			case at == i:
				return invalid("Self referencing expression found: %s", e.ID)
			case at < 0 || states[at] == left:
			case states[at] == entered:
				return invalid("Circular reference found: %s", e.ID)
			default:
				if err := visit(at); err != nil {
					return err
				}
			}
		}
		states[i] = left
		return nil
	}
	for i := range states {
		if states[i] == unseen {
			if err := visit(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleOutputs checks what is to be answered: without a list all expressions or, when
// there are none, all metrics.
func (q *expQuery) settleOutputs() error {
	for _, o := range q.body.Outputs {
		if err := checkID(o.ID); err != nil {
			return err
		}
		if _, ok := q.ids[string(o.ID)]; !ok {
			return invalid("The output %s is neither a metric nor an expression", o.ID)
		}
	}
	return nil
}

// outputs gives what is to be answered.
func (q *expQuery) outputs() []expOutput {
	if len(q.body.Outputs) > 0 {
		return q.body.Outputs
	}
	var all []expOutput
	for _, e := range q.body.Expressions {
		all = append(all, expOutput{ID: e.ID})
	}
	if len(all) > 0 {
		return all
	}
	for _, m := range q.body.Metrics {
		all = append(all, expOutput{ID: m.ID})
	}
	return all
}
