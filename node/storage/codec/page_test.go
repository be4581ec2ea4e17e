package codec

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// pagesOf packs columns into pages of one scale each, in the plainest way.
func pagesOf(c *Columns, scale uint8) (payloads [][]byte) {
	var h PageHead
	var page []byte
	for i := range c.Times {
		m, ok := Rescale(c.Mantissas[i], c.Scales[i], scale)
		if !ok {
			panic("scale")
		}
		if page != nil && h.Append(page, c.Times[i], m) {
			continue
		}
		if page != nil {
			payloads = append(payloads, h.AppendPayload(nil, page))
		}
		page = make([]byte, PageBytesMax)
		h.Begin(page, c.Times[i], m, scale)
	}
	return append(payloads, h.AppendPayload(nil, page))
}

func scaleOf(c *Columns) uint8 {
	most := uint8(0)
	for _, s := range c.Scales {
		most = max(most, s)
	}
	return most
}

func BenchmarkPageAppend(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			const n = 65536
			c := shape.make(n, newRandom(1))
			scale := scaleOf(c)
			for i := range c.Mantissas {
				c.Mantissas[i], _ = Rescale(c.Mantissas[i], c.Scales[i], scale)
			}
			page := make([]byte, PageBytesMax)
			pages, samples := 0, 0
			for b.Loop() {
				var h PageHead
				h.Begin(page, c.Times[0], c.Mantissas[0], scale)
				for i := 1; i < n; i++ {
					if !h.Append(page, c.Times[i], c.Mantissas[i]) {
						clear(page)
						h.Begin(page, c.Times[i], c.Mantissas[i], scale)
						pages++
					}
				}
				samples += n
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
			b.ReportMetric(float64(samples)/float64(pages), "samples/page")
		})
	}
}

func BenchmarkPageDecode(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			c := shape.make(65536, newRandom(1))
			pages := pagesOf(c, scaleOf(c))
			var p Points
			samples := 0
			for b.Loop() {
				for _, payload := range pages {
					p.Reset()
					if err := DecodePagePoints(payload, &p); err != nil {
						b.Fatal(err)
					}
					samples += p.Len()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
		})
	}
}

func TestPageRoundTrip(t *testing.T) {
	for _, shape := range shapes {
		c := shape.make(3000, newRandom(7))
		var got Columns
		var points Points
		for _, payload := range pagesOf(c, scaleOf(c)) {
			if err := DecodePage(payload, &got); err != nil {
				t.Fatal(shape.name, err)
			}
			if err := DecodePagePoints(payload, &points); err != nil {
				t.Fatal(shape.name, err)
			}
		}
		if got.Len() != c.Len() {
			t.Fatal(shape.name, got.Len())
		}
		for i := range c.Times {
			want := series.Float64(c.Mantissas[i], c.Scales[i])
			if got.Times[i] != c.Times[i] || series.Float64(got.Mantissas[i], got.Scales[i]) != want || points.Values[i] != want || points.Times[i] != c.Times[i] {
				t.Fatal(shape.name, i)
			}
		}
	}
}
