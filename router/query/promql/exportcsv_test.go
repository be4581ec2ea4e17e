package promql

import (
	"encoding/csv"
	"fmt"
	"math"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

func exportCSV(t *testing.T, form url.Values) answered {
	t.Helper()
	return do(New(labOptions(t)), httptest.NewRequest("GET", pathPrefix+"export/csv?"+form.Encode(), nil))
}

// TestExportCSV reads an export as /api/v1/import/csv does, and as encoding/csv does, and compares it with what is stored.
func TestExportCSV(t *testing.T) {
	labels := map[string]bool{}
	var want []string
	request := &scan.Request{Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	if err := labOptions(t).Source.Scan(t.Context(), request, func(_ int, chunk *scan.Chunk) error {
		_, metric, tags, err := chunk.Key.Parts(nil)
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(tags, func(tag series.Tag) bool { return len(tag.Value) == 0 || string(tag.Name) == "__name__" })
		for _, tag := range kept {
			labels[string(tag.Name)] = true
		}
		for i, ms := range chunk.Times {
			v := chunk.Values[i]
			if math.IsNaN(v) {
				v = math.NaN() // what a staleness marker becomes
			}
			want = append(want, fmt.Sprintf("%v %d %x", series.AppendKey(nil, nil, metric, kept), ms, math.Float64bits(v)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	fields, columns := []string{"__name__", "__value__", "__timestamp__"}, []string{"1:label:__name__", "2:metric:x", "3:time:unix_ms"}
	for name := range labels {
		fields = append(fields, name)
		columns = append(columns, fmt.Sprintf("%d:label:%s", len(fields), name))
	}
	all := url.Values{"match[]": {`{__name__!=""}`}, "format": {strings.Join(fields, ",")}}
	a := exportCSV(t, all)
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/csv") {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil || !slices.Equal(rows[0], fields) {
		t.Fatal(rows, err)
	}
	var got []string
	for _, row := range rows[1:] {
		v, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		var tags []series.Tag
		for i := 3; i < len(row); i++ {
			if row[i] != "" {
				tags = append(tags, series.Tag{Name: []byte(fields[i]), Value: []byte(row[i])})
			}
		}
		got = append(got, fmt.Sprintf("%v %s %x", series.AppendKey(nil, nil, []byte(row[0]), tags), row[2], math.Float64bits(v)))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%d samples, want %d\n%q\n%q", len(got), len(want), got, want)
	}

	// Rows that go on in another line cannot be imported.
	inOne := slices.DeleteFunc(want, func(s string) bool { return strings.Contains(s, "\n") })
	if len(inOne) < 20 || len(inOne) == len(rows)-1 {
		t.Fatalf("%d samples", len(inOne))
	}
	format, err := parse.ParseCSVFormat(strings.Join(columns, ","))
	if err != nil {
		t.Fatal(err)
	}
	var b parse.Batch
	if _, err := parse.CSV(&b, []byte(a.body), format, parse.LineOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, e := range b.Errors {
		if !strings.Contains(e.Detail, "quote") {
			t.Error(e.Error())
		}
	}
	got = got[:0]
	var keys parse.KeyBuilder
	for i := range b.Lines {
		if err := keys.Start(&b, &b.Lines[i], nil, parse.Limits{}); err != nil {
			t.Fatal(err)
		}
		key, err := keys.Key(nil, false)
		if err != nil {
			t.Fatal(err)
		}
		p := &b.Points[b.Lines[i].First]
		got = append(got, fmt.Sprintf("%v %d %x", key, p.TimeMs, math.Float64bits(series.Float64(p.Mantissa, p.Scale))))
	}
	if slices.Sort(got); !slices.Equal(got, inOne) {
		t.Errorf("imported: %d samples, want %d\n%q\n%q", len(got), len(inOne), got, inOne)
	}
}

func TestExportCSVOfSome(t *testing.T) {
	for _, c := range []struct {
		format string
		status int
		want   string
	}{
		{"__value__,__name__,none", 200, "__value__,__name__,none\n7,lonely,\n"},
		{"__timestamp__,__timestamp__:unix_s,__timestamp__:unix_ms,__timestamp__:unix_ns,__timestamp__:rfc3339,__timestamp__:custom:02.01.06 15:04", 200,
			"__timestamp__,__timestamp__:unix_s,__timestamp__:unix_ms,__timestamp__:unix_ns,__timestamp__:rfc3339,__timestamp__:custom:02.01.06 15:04\n" +
				"1750000000000,1750000000,1750000000000,1750000000000000000,2025-06-15T15:06:40Z,15.06.25 15:06\n"},
		{`__timestamp__:custom:"2006",__value__`, 200, `"__timestamp__:custom:""2006""",__value__` + "\n\"\"\"2025\"\"\",7\n"},
		{"", 400, "names the fields of a line"},
		{"__timestamp__:unix", 400, "has no known form"},
		{strings.Repeat(",", csvFieldsMax), 400, "more than 1000 fields"},
		{strings.Repeat("a", csvFormatBytesMax+1), 400, "16384 bytes"},
	} {
		a := exportCSV(t, url.Values{"match[]": {"lonely"}, "format": {c.format}})
		if a.status != c.status || c.status == 200 && a.body != c.want || !strings.Contains(a.body, c.want) {
			t.Errorf("%.99s: %d %s", c.format, a.status, a.body)
		}
	}
	if a := exportCSV(t, url.Values{"format": {"__value__"}}); a.status != 400 || !strings.Contains(a.body, "no match[]") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestAppendCSV(t *testing.T) {
	var want strings.Builder
	w := csv.NewWriter(&want)
	texts := []string{"", "a", "a,b", `a"b`, "a\nb", `"`, "é"}
	if err := w.Write(texts); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	var got []byte
	for i, text := range texts {
		got = appendCSV(appendComma(got, i), text)
	}
	if string(got)+"\n" != want.String() {
		t.Errorf("%s, want %s", got, want.String())
	}
	if got := appendCSV(nil, "'a"); string(got) != `"'a"` { // VictoriaMetrics reads single quotes, too
		t.Errorf("%s", got)
	}
	for _, ms := range []int64{0, -1, 1, -1500, 1750000000123} {
		if got, want := string(csvTimeOf(":unix_ns")(nil, ms)), fmt.Sprint(time.UnixMilli(ms).UnixNano()); got != want {
			t.Errorf("%d is %s, want %s", ms, got, want)
		}
	}
}
