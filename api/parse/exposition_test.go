package parse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

const expositionNowMs = 1_700_000_123_456

func parseExposition(text string) (*Batch, error) {
	var b Batch
	_, err := Exposition(&b, exact(text), LineOptions{NowMs: expositionNowMs})
	return &b, err
}

// told returns what a batch holds, and its errors behind !.
func told(t testing.TB, b *Batch) string {
	all := jsonLinesRead(t, b)
	for i := range b.Errors {
		all = append(all, "!"+b.Errors[i].Error())
	}
	return strings.Join(all, " ")
}

func TestExposition(t *testing.T) {
	const one = "3ff0000000000000"
	for _, test := range []struct{ text, want string }{
		{"m 1 1700000000000", "m{}@1700000000000=" + one},
		{"m 1", "m{}@1700000123456=" + one},
		{"# HELP m what it is\n# TYPE m counter\n\n \t\nm{a=\"b\"} 1 5000000000\r\n#x\n", "m{a=b}@5000000000=" + one},
		{`m { a = "b" , c="d",} 1	3000000000 `, "m{a=b,c=d}@3000000000=" + one},
		{`m{a="b"c="d"}1`, "m{a=b,c=d}@1700000123456=" + one},
		{`{"m ü","l b"="x\"\\\n\y"} 1`, `m ü{l b=x"\` + "\n" + `\y}@1700000123456=` + one},
		{"m.a-b{l.m=\"\",n=\"\\\\\"} 1", `m.a-b{n=\}@1700000123456=` + one},
		{"m +Inf\nm -inf\nm NaN\nm 1e3\nm -0", "m{}@1700000123456=7ff0000000000000 m{}@1700000123456=fff0000000000000 m{}@1700000123456=7ff8000000000001 " +
			"m{}@1700000123456=408f400000000000 m{}@1700000123456=8000000000000000"},
		{"m 1 1700000000", "m{}@1700000000000=" + one},
		{"m 1 1700000000.123 # {trace=\"x\"} 2", "m{}@1700000000123=" + one},
		{"m 1 1700000000.1239\nm 1 -1.5\nm 1 1.7e9\nm 1 1700000000123.9", "m{}@1700000000123=" + one + " m{}@-1500=" + one + " m{}@1700000000000=" + one + " m{}@1700000000123=" + one},
		{"m 1 -5000000000", "m{}@-5000000000=" + one},
		{"m 1 1e300", "!line 1: the time \"1e300\" is out of range (line 'm 1 1e300')"},
		{"m 1 2305843009213693952", "!line 1: the time \"2305843009213693952\" is out of range (line 'm 1 2305843009213693952')"},
		{"m 1 2305843009213693952.0", "!line 1: the time \"2305843009213693952.0\" is out of range (line 'm 1 2305843009213693952.0')"},
		{"m 1 9223372036854775808", "!line 1: the time \"9223372036854775808\" is out of range (line 'm 1 9223372036854775808')"},
		{"m 1 0x10", "!line 1: the time \"0x10\" is no number of milliseconds (line 'm 1 0x10')"},
		{"ok 1\nm\nm abc\nm 1 2 3\nok 1", "ok{}@1700000123456=" + one + " ok{}@1700000123456=" + one + " !line 2: the value is missing (line 'm') " +
			"!line 3: the value \"abc\" is no number: invalid syntax (line 'm abc') !line 4: something follows the time: \"3\" (line 'm 1 2 3')"},
		{"m 1e999", "!line 1: the value \"1e999\" is no number: value out of range (line 'm 1e999')"},
		{"{} 1", "!line 1: the metric has no name (line '{} 1')"},
		{`m{"n"} 1`, "!line 1: there are two names of the metric (line 'm{\"n\"} 1')"},
		{`m{a="b`, "!line 1: the value of the label \"a\" must be in double quotes (line 'm{a=\"b')"},
		{`m{a="b\"`, "!line 1: the value of the label \"a\" must be in double quotes (line 'm{a=\"b\\\"')"},
		{`m{a} 1`, "!line 1: = is missing behind the label \"a\" (line 'm{a} 1')"},
		{`m{a="b"`, "!line 1: a label's name or } is missing in column 8 (line 'm{a=\"b\"')"},
		{`m{,} 1`, "!line 1: a label's name or } is missing in column 3 (line 'm{,} 1')"},
		{`m{a="1",a="2"} 1`, "! invalid labels for series, duplicated label a"},
		{"m{\"\"=\"1\"} 1", "! invalid metric name or labels, got \"\"=\"1\""},
		{"m{a=\"\xff\"} 1", "! invalid metric name or labels, got \"a\"=\"\\xff\""},
	} {
		b, err := parseExposition(test.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := told(t, b); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.text, got, test.want)
		}
	}
}

// TestTextInPieces cuts lines anywhere, has some that are too long, and looks at the numbers of those that are wrong.
func TestTextInPieces(t *testing.T) {
	long := "m{a=\"" + strings.Repeat("x", 300) + "\"} 1\n"
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var want []string
		var wrong []int
		lines := rapid.IntRange(0, 12).Draw(t, "lines")
		for i := range lines {
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				text.WriteString(long)
				wrong = append(wrong, i+1)
			case 1:
				text.WriteString("m x\n")
				wrong = append(wrong, i+1)
			case 2:
				text.WriteString("\n")
			default:
				fmt.Fprintf(&text, "m %d %d\n", i, 3_000_000_000+i)
				want = append(want, fmt.Sprintf("m{}@%d=%x", 3_000_000_000+i, math.Float64bits(float64(i))))
			}
		}
		body := text.String()
		if rapid.Bool().Draw(t, "cut") {
			body = strings.TrimSuffix(body, "\n")
		}
		var got []string
		var refused []int
		rest, held := Rest{}, ""
		for {
			n := min(rapid.IntRange(1, 300).Draw(t, "piece"), len(body))
			held, body = held+body[:n], body[n:]
			var b Batch
			var err error
			rest, err = Exposition(&b, []byte(held), LineOptions{Limits: Limits{LineBytesMax: 200}, Partial: body != "", LinesBefore: rest.Lines, InsideLine: rest.InsideLine})
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Errors {
				refused = append(refused, b.Errors[i].Number)
			}
			got, held = append(got, jsonLinesRead(t, &b)...), held[rest.Consumed:]
			if body == "" {
				break
			}
		}
		if !slices.Equal(got, want) || !slices.Equal(refused, wrong) {
			t.Fatalf("wrong %v, want %v\n got %q\nwant %q", refused, wrong, got, want)
		}
	})
}

// referenceExposition reads a line as Prometheus does; ok reports whether it holds a sample.
func referenceExposition(line string) (all []string, ok bool) {
	p := textparse.NewPromParser([]byte(line), labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return all, true
		}
		if err != nil {
			return nil, false
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		p.Labels(&l)
		_, ms, v := p.Series()
		if ms == nil {
			ms = new(int64(expositionNowMs))
		}
		all = append(all, refSample(l, *ms, v))
	}
}

// refSample writes a sample as jsonLinesRead does; of labels that no series may have only that.
func refSample(l labels.Labels, ms int64, v float64) string {
	metric, tags, seen := "", map[string]string{}, map[string]bool{}
	invalid := false
	l.Range(func(label labels.Label) {
		invalid = invalid || label.Name == "" || !utf8.ValidString(label.Name) || !utf8.ValidString(label.Value) || seen[label.Name]
		if label.Value == "" {
			return
		}
		seen[label.Name] = true
		if label.Name == "__name__" {
			metric = label.Value
		} else {
			tags[label.Name] = label.Value
		}
	})
	if invalid || metric == "" {
		return "!"
	}
	return fmt.Sprintf("%v@%d=%x", series.Key(keyOf("", metric, tags)), ms, math.Float64bits(v))
}

// checkExposition compares a line with Prometheus' parser, and with what that makes of the line written anew where it
// does not take the line itself: names, times and what follows a # may be more than Prometheus takes.
func checkExposition(t testing.TB, line string) {
	b, err := parseExposition(line)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(line, "\n\x00") || len(line) > LineBytesMaxDefault {
		return
	}
	got := jsonLinesRead(t, b)
	for i := range got {
		if strings.HasPrefix(got[i], "! ") {
			got[i] = "!"
		}
	}
	line = strings.TrimLeft(line, " \t") // which Prometheus makes a part of the name
	if want, ok := referenceExposition(line); ok {
		refused := len(b.Errors) > 0 || slices.Contains(got, "!")
		if plainName(line) && !fewMilliseconds(line) && (refused != slices.Contains(want, "!") || !refused && !slices.Equal(got, want)) {
			t.Fatalf("%q: %q %v, Prometheus has %q", line, got, b.Errors, want)
		}
		return
	}
	if len(b.Errors) > 0 || len(got) == 0 || got[0] == "!" {
		return
	}
	if b.Points[0].TimeMs < 0 {
		return // Prometheus' format has no times before 1970
	}
	again := rewritten(t, b)
	if want, ok := referenceExposition(again); !ok || !slices.Equal(got, want) {
		t.Fatalf("%q: %q, and written anew as %q Prometheus has %q", line, got, again, want)
	}
}

// plainName reports whether the name in front ends as all would have it: Prometheus takes m+1 for the name m and a value.
func plainName(line string) bool {
	end := strings.IndexFunc(line, func(c rune) bool { return c != ':' && !labelRune(c) })
	return end < 0 || strings.ContainsRune(" \t{#", rune(line[end]))
}

func labelRune(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// fewMilliseconds reports whether a line ends in a time that may be one of seconds, or one that nobody can ask for.
func fewMilliseconds(line string) bool {
	line = strings.TrimRight(line, " \t")
	ms, err := strconv.ParseInt(line[strings.LastIndexAny(line, " \t")+1:], 10, 64)
	return err == nil && (ms < 1<<31 || ms > scan.TimeMsMax)
}

// rewritten writes the sample of a batch in the strictest form.
func rewritten(t testing.TB, b *Batch) string {
	var keys KeyBuilder
	if err := keys.Start(b, &b.Lines[0], nil, Limits{}); err != nil {
		t.Fatal(err)
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	text := `{"` + quote.Replace(string(keys.metric)) + `"`
	for _, tag := range keys.tags {
		text += `,"` + quote.Replace(string(tag.Name)) + `"="` + quote.Replace(string(tag.Value)) + `"`
	}
	p := &b.Points[0]
	text += "} " + strconv.FormatFloat(series.Float64(p.Mantissa, p.Scale), 'g', -1, 64)
	return fmt.Sprintf("%s %d", text, p.TimeMs)
}

func FuzzExposition(f *testing.F) {
	for _, s := range []string{
		"m 1", `m{a="b",c="d\"\\\n"} 1.5 1700000000000`, `{"m x","l"="v"} NaN`, "m{} +Inf 5", "# HELP a b", "m.x{a-b=\"\"} -1e-3 1700000000.5 # {a=\"b\"} 1",
		`m { a = "b" , } 0x1p4`, "m 1_0", `m{a="\xff"} 1`, "\t m 1", `m{a="1"b="2"}1`, `m{__name__="n"} 1`, `{"m",} 1`, "m 1 -1.5", "m\t.5\t1.\t", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) { checkExposition(t, line) })
}

// TestExpositionModel draws lines of what the format is made of.
func TestExpositionModel(t *testing.T) {
	part := rapid.SampledFrom([]string{"m", "{", "}", "a", "=", `"`, `"b"`, `"\""`, `"\n`, ",", " ", "\t", "1", "1.5", "-", "+", "Inf", "NaN", "e3", "1700000000000", "#", "\\", ":", "é", ".", "__name__", `a="b"`})
	rapid.Check(t, func(r *rapid.T) {
		line := strings.Join(rapid.SliceOfN(part, 0, 14).Draw(r, "parts"), "")
		if rapid.Bool().Draw(r, "sample") {
			line = `m{` + line + `} 1 1700000000000`
		}
		checkExposition(t, line)
	})
}

// TestExtraLabels compares the labels of every form of text with those of a map.
func TestExtraLabels(t *testing.T) {
	extra, err := NewExtraLabels([]string{"host=z", "dc=a=b", "none=", "host=y"})
	if err != nil {
		t.Fatal(err)
	}
	renamed, err := NewExtraLabels([]string{"__name__=n"})
	if err != nil {
		t.Fatal(err)
	}
	parsers := map[string]func(b *Batch) error{
		"line": func(b *Batch) error { _, err := Lines(b, []byte("m,host=a,x=1 f=1 1"), LineOptions{}); return err },
		"put":  func(b *Batch) error { _, err := Puts(b, []byte("put m 1 1 host=a x=1"), PutOptions{}); return err },
		"text": func(b *Batch) error {
			_, err := Exposition(b, []byte(`m{host="a",x="1"} 1`), LineOptions{})
			return err
		},
		"JSON lines": func(b *Batch) error {
			_, err := JSONLines(b, []byte(`{"metric":{"__name__":"m","host":"a","x":"1"},"values":[1],"timestamps":[1]}`), LineOptions{})
			return err
		},
	}
	for name, parse := range parsers {
		for _, test := range []struct {
			extra ExtraLabels
			want  string
		}{{ExtraLabels{}, "m{host=a,x=1}"}, {extra, "m{dc=a=b,host=y,x=1}"}, {renamed, "n{host=a,x=1}"}} {
			b := Batch{Extra: test.extra}
			if err := parse(&b); err != nil || len(b.Lines) != 1 {
				t.Fatal(name, err, b.Errors)
			}
			var keys KeyBuilder
			if err := keys.Start(&b, &b.Lines[0], nil, Limits{}); err != nil {
				t.Fatal(err)
			}
			key, err := keys.Key(b.Field(&b.Points[0]), false)
			if err != nil {
				t.Fatal(err)
			}
			want := test.want
			if name == "line" {
				want = strings.Replace(want, "{", "{_field=f,", 1)
				if strings.Contains(want, "dc=") {
					want = "m{_field=f,dc=a=b,host=y,x=1}"
				}
			}
			if fmt.Sprint(key) != want {
				t.Errorf("%s: %v, want %s", name, key, want)
			}
		}
	}
	same, err := NewExtraLabels([]string{"dc=a=b", "host=y"})
	if err != nil || !bytes.Equal(same.Text(), extra.Text()) || bytes.Equal(extra.Text(), renamed.Text()) {
		t.Errorf("%v %q %q", err, same.Text(), extra.Text())
	}
	for _, text := range []string{"", "a", "=b", "a\xff=b", "_field=x"} {
		if e, err := NewExtraLabels([]string{text}); err == nil || len(e.Text()) > 0 {
			t.Errorf("%q: %v", text, err)
		}
	}
}
