package promql

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

func export(h http.Handler, form url.Values) answered {
	return do(h, httptest.NewRequest(http.MethodGet, pathPrefix+"export?"+form.Encode(), nil))
}

// TestExport reads an export as /api/v1/import does, and compares it with what is stored.
func TestExport(t *testing.T) {
	o := labOptions(t)
	h := New(o)
	var want []string
	request := &scan.Request{Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	if err := o.Source.Scan(t.Context(), request, func(_ int, chunk *scan.Chunk) error {
		for i, ms := range chunk.Times {
			want = append(want, fmt.Sprintf("%v %d %x", chunk.Key, ms, math.Float64bits(chunk.Values[i])))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range want { // tags that are no labels of Prometheus are left out, as in its other answers
		want[i] = strings.ReplaceAll(want[i], "odd{__name__=other,empty=}", "odd{}")
	}
	slices.Sort(want)
	if len(want) < 20 {
		t.Fatalf("%d samples", len(want))
	}
	for _, perLine := range []string{"", "0", "1", "7", "100000"} {
		a := export(h, url.Values{"match[]": {`{__name__!=""}`}, "max_rows_per_line": {perLine}})
		if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "application/stream+json") {
			t.Fatalf("%d %v", a.status, a.header)
		}
		var b parse.Batch
		var keys parse.KeyBuilder
		if _, err := parse.JSONLines(&b, []byte(a.body), parse.LineOptions{}); err != nil || len(b.Errors) > 0 {
			t.Fatal(err, b.Errors)
		}
		var got []string
		for i := range b.Lines {
			l := &b.Lines[i]
			if perLine == "1" && l.Count != 1 || perLine == "7" && l.Count > 7 {
				t.Fatalf("%s: a line of %d samples", perLine, l.Count)
			}
			if err := keys.Start(&b, l, nil, parse.Limits{}); err != nil {
				t.Fatal(err)
			}
			key, err := keys.Key(nil, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range b.Points[l.First : l.First+l.Count] {
				bits := math.Float64bits(series.Float64(p.Mantissa, p.Scale))
				got = append(got, fmt.Sprintf("%v %d %x", key, p.TimeMs, bits))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %d samples, want %d\n%q\n%q", perLine, len(got), len(want), got, want)
		}
	}
}

// oneChunk is a source with one chunk.
type oneChunk struct {
	scan.Source
	chunk *scan.Chunk
}

// Scan implements scan.Source.
func (o oneChunk) Scan(_ context.Context, _ *scan.Request, visit scan.Visitor) error {
	return visit(0, o.chunk)
}

// TestExportedLinesAreTaken exports the longest lines that there are, and reads them as /api/v1/import does, which takes no longer ones.
func TestExportedLinesAreTaken(t *testing.T) {
	const samples = 2*exportLineSamples + 1
	o := labOptions(t)
	value := []byte(strings.Repeat("\x01", series.KeyBytesMax-40)) // a character that JSON writes as six
	chunk := scan.Chunk{Key: series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("t"), Value: value}})}
	for i := range samples {
		chunk.Times = append(chunk.Times, scan.TimeMsMin+int64(i))
		chunk.Values = append(chunk.Values, -math.MaxFloat64/(1+float64(i)*1e-12))
	}
	o.Source = oneChunk{o.Source, &chunk}
	a := export(New(o), url.Values{"match[]": {"m"}})
	longest := 0
	for line := range strings.Lines(a.body) {
		longest = max(longest, len(line))
	}
	if a.status != http.StatusOK || longest > parse.JSONLineBytesMax || longest < parse.JSONLineBytesMax/2 {
		t.Fatalf("%d, a line of %d bytes: %.200s", a.status, longest, a.body)
	}
	var b parse.Batch
	limits := parse.Limits{LineBytesMax: parse.JSONLineBytesMax, KeyBytesMax: series.KeyBytesMax}
	if _, err := parse.JSONLines(&b, []byte(a.body), parse.LineOptions{Limits: limits}); err != nil || len(b.Errors) > 0 || len(b.Points) != samples {
		t.Errorf("%v, %d errors, %d samples of %d", err, len(b.Errors), len(b.Points), samples)
	}
}

func TestExportOfSome(t *testing.T) {
	h := New(labOptions(t))
	for _, c := range []struct {
		form   url.Values
		status int
		want   string
	}{
		{url.Values{"match[]": {"lonely"}}, 200, `{"metric":{"__name__":"lonely"},"values":[7],"timestamps":[1750000000000]}` + "\n"},
		{url.Values{"match[]": {"lonely"}, "end": {"1749999999"}}, 200, ""},
		{url.Values{"match[]": {"nobody"}}, 200, ""},
		{url.Values{}, 400, "no match[] parameter provided"},
		{url.Values{"match[]": {"lonely"}, "start": {"5"}, "end": {"4"}}, 400, "end timestamp must not be before start time"},
		{url.Values{"match[]": {"lonely"}, "max_rows_per_line": {"x"}}, 400, "max_rows_per_line"},
		{url.Values{"match[]": {"lonely"}, "partial": {"true"}}, 400, "an export is whole"},
		{url.Values{"match[]": {"lonely{"}}, 400, "parse error"},
	} {
		if a := export(h, c.form); a.status != c.status || c.status == 200 && a.body != c.want || !strings.Contains(a.body, c.want) {
			t.Errorf("%v: %d %s", c.form, a.status, a.body)
		}
	}
}
