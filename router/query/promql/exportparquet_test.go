package promql

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/tickmesh/tickmesh/api/scan"
)

// exportedRow is a row as readers have it.
type exportedRow struct {
	Metric string            `parquet:"metric"`
	Tags   map[string]string `parquet:"tags"`
	Time   int64             `parquet:"time,timestamp(millisecond)"`
	Value  float64           `parquet:"value"`
}

// TestExportParquet compares what is read of an export with what is stored.
func TestExportParquet(t *testing.T) {
	var want []string
	o := labOptions(t)
	utf8 := func(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
	line := func(metric string, tags []string, ms int64, v float64) string {
		slices.Sort(tags)
		return fmt.Sprintf("%q %q %d %x", metric, tags, ms, math.Float64bits(v))
	}
	request := &scan.Request{Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	if err := o.Source.Scan(t.Context(), request, func(_ int, chunk *scan.Chunk) error {
		_, metric, tags, err := chunk.Key.Parts(nil)
		if err != nil {
			return err
		}
		var texts []string
		for _, tag := range tags {
			texts = append(texts, utf8(tag.Name)+"="+utf8(tag.Value))
		}
		for i, ms := range chunk.Times {
			want = append(want, line(utf8(metric), texts, ms, chunk.Values[i]))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"match[]": {`{__name__!=""}`}}
	a := do(New(o), httptest.NewRequest("GET", pathPrefix+"export/parquet?"+form.Encode(), nil))
	if a.status != 200 || a.header.Get("Content-Type") != "application/vnd.apache.parquet" || a.header.Get("Content-Encoding") != "" {
		t.Fatalf("%d %v %.200s", a.status, a.header, a.body)
	}
	rows, err := parquet.Read[exportedRow](bytes.NewReader([]byte(a.body)), int64(len(a.body)))
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		var texts []string
		for name, value := range r.Tags {
			texts = append(texts, name+"="+value)
		}
		got = append(got, line(r.Metric, texts, r.Time, r.Value))
	}
	slices.Sort(want)
	if slices.Sort(got); len(got) < 20 || !slices.Equal(got, want) {
		t.Errorf("%d samples, want %d\n%q\n%q", len(got), len(want), got, want)
	}
}

func TestExportParquetRefuses(t *testing.T) {
	for query, want := range map[string]string{
		"":                       "no match[] parameter",
		"match[]=x&columns=time": "each file has",
		"match[]=x&columns=a,a":  "comes twice",
		"match[]=x&columns=" + strings.Repeat("a,", 100): "cannot be columns",
		"match[]=x&partial=true":                         "whole or fails",
	} {
		a := do(New(labOptions(t)), httptest.NewRequest("GET", pathPrefix+"export/parquet?"+query, nil))
		if a.status != 400 || !strings.Contains(a.body, want) || a.header.Get("Content-Disposition") != "" {
			t.Errorf("%.60s: %d %v %s", query, a.status, a.header, a.body)
		}
	}
}

// A failure before the first row group is an answer, and no file.
func TestExportParquetFails(t *testing.T) {
	o := labOptions(t)
	o.Source = failing{o.Source, errors.New("the disk is gone")}
	a := do(New(o), httptest.NewRequest("GET", pathPrefix+"export/parquet?match[]=x", nil))
	if a.status < 500 || a.header.Get("Content-Disposition") != "" || a.header.Get("Content-Type") != contentJSON {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}
