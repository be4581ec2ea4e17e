package parse

import (
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

func parseCSV(t testing.TB, format, text string) *Batch {
	f, err := ParseCSVFormat(format)
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	if _, err := CSV(&b, exact(text), f, LineOptions{NowMs: expositionNowMs}); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestCSV(t *testing.T) {
	const one = "3ff0000000000000"
	for _, test := range []struct{ format, text, want string }{
		{"2:time:unix_s,1:metric:m", "1,1700000000\r\n\n1,-1", "m{}@1700000000000=" + one + " m{}@-1000=" + one},
		{"1:metric:m,2:label:a,3:metric:n,4:label:b", `1,x,1,'it''s'` + "\n" + `1,"x,""y",,`, `m{a=x,b=it's}@1700000123456=` + one + ` n{a=x,b=it's}@1700000123456=` + one + ` m{a=x,"y}@1700000123456=` + one},
		{"1:time:unix_ns,3:metric:m", "1700000000123999999,whatever,1,\"open", "!line 1: column 4: the quote is not closed on its line (line '1700000000123999999,whatever,1,\"open')"},
		{"1:time:unix_ns,3:metric:m", "1700000000123999999,whatever,1\n-1,,1", "m{}@1700000000123=" + one + " m{}@-1=" + one},
		{"1:time:rfc3339,2:metric:m", "2023-11-14T23:13:20.1239+01:00,1", "m{}@1700000000123=" + one},
		{"1:time:custom:02.01.2006 15:04,2:metric:m", "14.11.2023 22:13,1", "m{}@1699999980000=" + one},
		{"1:time:unix_ms,2:metric:m", "time,value\n1,1\ntime,value", "m{}@1=" + one + " !line 3: column 1: the time \"time\" is no whole number (line 'time,value')"},
		{"1:time:unix_ms,2:metric:m", "\uFEFF1,1\n2,x\n3,Inf", "m{}@1=" + one + " m{}@3=7ff0000000000000 !line 2: column 2: the value \"x\" is no number: invalid syntax (line '2,x')"},
		{"1:time:unix_s,2:metric:m", "\n1,1\n9223372036854775807,1\n9223372036854775808,1", "m{}@1000=" + one + " !line 3: column 1: the time \"9223372036854775807\" is out of range (line '9223372036854775807,1') " +
			"!line 4: column 1: the time \"9223372036854775808\" is no whole number (line '9223372036854775808,1')"},
		{"1:label:__name__,2:metric:m", "n,1\n,1", "n{}@1700000123456=" + one + " m{}@1700000123456=" + one},
		{"3:metric:m", "1\n1,\"2\"3,4\n,,\n,,1", "!line 1: 1 columns, and the format wants 3 (line '1') !line 2: column 2: a comma is missing behind the quote (line '1,\"2\"3,4')"},
		{"2:metric:m,1:label:a", "\xff,1", "! invalid metric name or labels, got \"a\"=\"\\xff\""},
	} {
		b := parseCSV(t, test.format, test.text)
		got := told(t, b)
		if test.format == "3:metric:m" {
			test.want = "m{}@1700000123456=" + one + " " + test.want
		}
		if got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.text, got, test.want)
		}
	}
}

func TestCSVFormat(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "is not of the form",
		"1:metric":                               "is not of the form",
		"0:metric:m":                             "names no column from 1 to 65536",
		"65537:metric:m":                         "names no column from 1 to 65536",
		"x:metric:m":                             "names no column from 1 to 65536",
		"1:metric:m,1:label:a":                   "column 1 is named twice",
		"1:metric:":                              "has no name",
		"1:label:a":                              "no column is a metric",
		"1:metric:m,2:time:unix":                 "has a time of no known form",
		"1:metric:m,2:time:custom:":              "has no name",
		"1:value:m":                              "is of no known kind",
		"1:metric:\xff":                          "is not UTF-8",
		"1:metric:m,2:time:unix_s,3:time:unix_s": "more than one column is a time",
	} {
		if _, err := ParseCSVFormat(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"1:metric:m", "2:label:a:b,65536:metric:m,1:time:custom:15:04"} {
		if _, err := ParseCSVFormat(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// referenceCSV reads a row by encoding/csv; ok is false where that does not take it.
func referenceCSV(text string) (want []string, ok bool) {
	r := csv.NewReader(strings.NewReader(text))
	row, err := r.Read()
	if err != nil || len(row) < 4 {
		return nil, false
	}
	if row[0] != "" {
		if _, err := strconv.ParseInt(row[0], 10, 64); err != nil {
			return nil, true
		}
	}
	ms := int64(expositionNowMs)
	if row[0] != "" {
		ms, _ = strconv.ParseInt(row[0], 10, 64)
	}
	if ms < scan.TimeMsMin || ms > scan.TimeMsMax || !utf8.ValidString(row[1]) {
		return nil, true
	}
	tags := map[string]string{}
	if row[1] != "" {
		tags["l"] = row[1]
	}
	for i, name := range []string{"m", "n"} {
		if row[2+i] == "" {
			continue
		}
		v, err := strconv.ParseFloat(row[2+i], 64)
		if err != nil || strings.ContainsAny(row[2+i], "xXpP_") {
			return nil, true
		}
		want = append(want, fmt.Sprintf("%v@%d=%x", series.Key(keyOf("", name, tags)), ms, math.Float64bits(v)))
	}
	return want, true
}

func checkCSV(t testing.TB, text string) {
	const format = "1:time:unix_ms,2:label:l,3:metric:m,4:metric:n"
	b := parseCSV(t, format, text)
	if strings.ContainsAny(text, "\r\n'") || strings.HasPrefix(text, "\uFEFF") || len(text) > LineBytesMaxDefault {
		return
	}
	got := jsonLinesRead(t, b)
	if want, ok := referenceCSV(text); ok {
		got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "! ") })
		if !slices.Equal(got, want) {
			t.Fatalf("%q: %q %v, want %q", text, got, b.Errors, want)
		}
	}
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"1,a,2,3", `1700000000000,"a ""b"", c",1.5,`, ",,,", `1,"a,2,3`, `1,"a"b,2,3`, "x,y,z,a", "1,a,NaN,-inf,more", "1,'a''',1,1", "\uFEFF1,a,1,1", "1,\xff,1,1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkCSV(t, text) })
}

// TestCSVModel draws rows of what the format is made of, and times in each of their forms.
func TestCSVModel(t *testing.T) {
	part := rapid.SampledFrom([]string{`"`, `""`, ",", "a", "1", "-", ".", "NaN", " ", "é", "1700000000000"})
	rapid.Check(t, func(r *rapid.T) {
		checkCSV(t, strings.Join(rapid.SliceOfN(part, 0, 16).Draw(r, "parts"), ""))
	})
	forms := map[string]func(time.Time) string{
		"unix_s":  func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) },
		"unix_ms": func(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) },
		"unix_ns": func(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) },
		"rfc3339": func(at time.Time) string { return at.Format(time.RFC3339Nano) },
		"custom:2006-01-02 15:04:05.000000 -0700": func(at time.Time) string { return at.Format("2006-01-02 15:04:05.000000 -0700") },
	}
	rapid.Check(t, func(r *rapid.T) {
		at := time.Unix(rapid.Int64Range(-5e9, 9e9).Draw(r, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(r, "ns")).
			In(time.FixedZone("", rapid.IntRange(-12, 12).Draw(r, "zone")*3600))
		for form, write := range forms {
			b := parseCSV(t, "1:time:"+form+",2:metric:m", write(at)+",1")
			want := at.UnixMilli()
			if form == "unix_s" {
				want = at.Unix() * 1000
			}
			if len(b.Points) != 1 || b.Points[0].TimeMs != want {
				r.Fatalf("%s %s: %v %v, want %d", form, write(at), b.Points, b.Errors, want)
			}
		}
	})
}
