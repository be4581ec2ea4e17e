package promql

import (
	"math"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
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
		got := aggregate(e, input, startMs, stepMs, steps)
		if len(got) != count {
			t.Fatalf("%d groups, want %d", len(got), count)
		}
		for i, group := range got {
			if want := labels.FromStrings("n", strconv.Itoa(i)); !labels.Equal(group.Metric, want) {
				t.Fatalf("group %d is %s", i, group.Metric)
			}
			want := aggregate(e, []column{input[i], input[i+count]}, startMs, stepMs, steps)[0]
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
