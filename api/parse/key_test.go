package parse

import (
	"fmt"
	"testing"
)

// BenchmarkPutKeys builds the keys of put lines that nobody has seen before.
func BenchmarkPutKeys(b *testing.B) {
	var body []byte
	for i := range 200 {
		body = fmt.Appendf(body, "put m 1700000000 %d device=d_%d sensor=s_%d\n", i, 1000+i/10, i%10)
	}
	var batch Batch
	if _, err := Puts(&batch, body, PutOptions{}); err != nil || len(batch.Lines) != 200 {
		b.Fatal(err)
	}
	var keys KeyBuilder
	limits := Limits{}.WithDefaults()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for i := range batch.Lines {
			if err := keys.Start(&batch, &batch.Lines[i], nil, limits); err != nil {
				b.Fatal(err)
			}
			if _, err := keys.Key(nil, false); err != nil {
				b.Fatal(err)
			}
		}
		n += len(batch.Lines)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/key")
}
