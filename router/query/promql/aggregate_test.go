package promql

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// TestAggregateInBlocks: more cells than are held at once give what one group after the
// other gives. That this is what the engine gives is for TestDirect.
func TestAggregateInBlocks(t *testing.T) {
	const startMs, stepMs, steps = 1000, 10, 7
	for _, count := range []int{1, 3, cellsMax / 3, cellsMax + 5} {
		var input []column
		for i := range 2 * count { // two series in each group
			c := column{labels: labels.FromStrings(nameLabel, "m", "n", strconv.Itoa(i%count))}
			for step := range int64(steps) {
				switch v := float64(i) + float64(step)/8; {
				case (i+int(step))%5 == 0: // none
				case (i+int(step))%5 == 1:
					c.times, c.values = append(c.times, startMs+step*stepMs), append(c.values, math.Float64frombits(value.StaleNaN))
				default:
					c.times, c.values = append(c.times, startMs+step*stepMs), append(c.values, v)
				}
			}
			input = append(input, c)
		}
		e := &parser.AggregateExpr{Op: parser.SUM, Grouping: []string{"n"}}
		got, err := aggregate(t.Context(), e, input, startMs, stepMs, steps)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != count {
			t.Fatalf("%d groups, want %d", len(got), count)
		}
		for i, group := range got {
			if want := labels.FromStrings("n", strconv.Itoa(i)); !labels.Equal(group.Metric, want) {
				t.Fatalf("group %d is %s", i, group.Metric)
			}
			alone, err := aggregate(t.Context(), e, []column{input[i], input[i+count]}, startMs, stepMs, steps)
			if err != nil {
				t.Fatal(err)
			}
			want := alone[0]
			if len(group.Floats) != len(want.Floats) {
				t.Fatalf("group %d: %v, want %v", i, group.Floats, want.Floats)
			}
			for j := range want.Floats {
				if group.Floats[j] != want.Floats[j] {
					t.Fatalf("group %d: %v, want %v", i, group.Floats, want.Floats)
				}
			}
		}
	}
}

// endingContext ends when it has been looked at so often.
type endingContext struct {
	context.Context
	looks int
}

func (c *endingContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestDirectEnds: what is done without the engine ends with its context, too, and takes its
// memory from admission control.
func TestDirectEnds(t *testing.T) {
	const steps = 4
	input := make([]column, cellsMax) // a block for each step
	for i := range input {
		input[i] = column{labels: labels.FromStrings("n", strconv.Itoa(i)), times: []int64{0, 1, 2, 3}, values: []float64{1, 2, 3, 4}}
	}
	e := &parser.AggregateExpr{Op: parser.SUM, Grouping: []string{"n"}}
	for looks := range steps {
		if _, err := aggregate(&endingContext{t.Context(), looks}, e, input, 0, 1, steps); !errors.Is(err, context.Canceled) {
			t.Errorf("an aggregation whose context has ended at look %d gives %v", looks, err)
		}
	}
	if _, err := aggregate(&endingContext{t.Context(), steps}, e, input, 0, 1, steps); err != nil {
		t.Error(err)
	}
	ctx, entry, err := admission.New(admission.Options{Limits: admission.Limits{BytesMax: 8 << 20}}).Begin(t.Context(), admission.Query{})
	if err != nil {
		t.Fatal(err)
	}
	defer entry.End(nil)
	var limit *scan.LimitError
	if _, err := aggregate(ctx, e, input, 0, 1, steps); !errors.As(err, &limit) {
		t.Errorf("groups that need more memory than there is: %v", err)
	}
	var series []ranked
	for i := range input {
		series = append(series, ranked{column: &input[i]})
	}
	d := &directQuery{selector: &parser.VectorSelector{}, samplesMax: len(input) * steps}
	g := grid{lastMs: steps - 1, stepMs: 1, widthMs: 1, lastOnly: true}
	if _, err := d.values(&endingContext{t.Context(), 3}, g, series); !errors.Is(err, context.Canceled) {
		t.Errorf("values whose context has ended: %v", err)
	}
	if list, err := d.values(t.Context(), g, series); err != nil || len(list) != len(input) {
		t.Errorf("%d series, %v", len(list), err)
	}
}
