package retention

import (
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// BenchmarkRuleTable is what an entry that moves the cuts of the longest list on costs each
// shard, and what a series costs whose metric is known.
func BenchmarkRuleTable(b *testing.B) {
	c := Cuts{OtherMs: NoCut}
	for i := range 1000 {
		c.Rules = append(c.Rules, Cut{Database: fmt.Sprintf("^(?s:d%d)$", i), Metric: "^(?s:.*)$", CutMs: int64(i)})
	}
	table, err := (*Table)(nil).With(c, NoCut, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("entry", func(b *testing.B) {
		for b.Loop() {
			if table, err = table.With(c, NoCut, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			if _, err := (*Table)(nil).With(c, NoCut, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("of", func(b *testing.B) {
		key := series.AppendKey(nil, []byte("d999"), []byte("cpu"), nil)
		for b.Loop() {
			_ = table.Of(key)
		}
	})
}
