package parse

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The reference parser of put lines: split at spaces, then strconv.

var (
	refWhole    = regexp.MustCompile(`^[+-]?[0-9]+$`)
	refFraction = regexp.MustCompile(`^\+?([0-9]+)\.([0-9]*)$`)
	refDecimal  = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
)

func referencePuts(body string) (r result) {
	lines := strings.Split(body, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		words := slices.DeleteFunc(strings.Split(line, " "), func(w string) bool { return w == "" })
		switch {
		case len(words) == 0:
		case words[0] != "put":
			r.commands = append(r.commands, line)
		default:
			if p, ok := refPut(words[1:]); ok {
				p.number = i + 1
				r.points = append(r.points, p)
			} else {
				r.errors = append(r.errors, i+1)
			}
		}
	}
	return r
}

func refPut(words []string) (p resultPoint, ok bool) {
	if len(words) < 3 || !refLegal(words[0]) {
		return p, false
	}
	tags := map[string]string{}
	for _, word := range words[3:] {
		parts := strings.Split(word, "=")
		if len(parts) != 2 || !refLegal(parts[0]) || !refLegal(parts[1]) {
			return p, false
		}
		if before, twice := tags[parts[0]]; twice && before != parts[1] {
			return p, false
		}
		tags[parts[0]] = parts[1]
	}
	timeMs, ok := refTime(words[1])
	if !ok {
		return p, false
	}
	v, ok := refFloat(words[2])
	return resultPoint{0, keyOf("db", words[0], tags), timeMs, math.Float64bits(v)}, ok
}

func refFloat(s string) (float64, bool) {
	if !refDecimal.MatchString(s) {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

func refTime(s string) (ms int64, ok bool) {
	if refWhole.MatchString(s) {
		t, err := strconv.ParseInt(s, 10, 64)
		if t < 1e10 {
			t *= 1000
		}
		return t, err == nil && t > 0 && t < 1e13
	}
	m := refFraction.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	seconds, err := strconv.ParseInt(m[1], 10, 64)
	milliseconds, _ := strconv.ParseInt((m[2] + "000")[:3], 10, 64)
	ms = seconds*1000 + milliseconds
	return ms, err == nil && seconds < 1e10 && ms > 0
}

func refLegal(s string) bool {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		letter := unicode.IsLetter(r) && !(r == utf8.RuneError && size == 1)
		if !letter && !(r >= '0' && r <= '9') && !strings.ContainsRune("-_./", r) {
			return false
		}
		i += size
	}
	return s != ""
}

func checkPuts(t interface{ Fatalf(string, ...any) }, body string) {
	want := referencePuts(body)
	for _, memory := range []func(string) []byte{withRoom, exact} {
		var b Batch
		rest, err := Puts(&b, memory(body), PutOptions{})
		if err != nil || rest.Consumed != len(body) || rest.InsideLine {
			t.Fatalf("%q: %v, %+v", body, err, rest)
		}
		if d := difference(resultOf(&b, "db", Limits{}), want); d != "" {
			t.Fatalf("%q: %s (errors %v)", body, d, messages(&b))
		}
	}
}

var putSeeds = []string{
	"put m 1700000000 20.15 device=d_17 sensor=s_3\n",
	"put m 1700000000123 -5 a=b\r\nput m 1700000000.5 1e5\nput m 1700000000.1239 .5 \n",
	"version\nput a.b/c-d_e 1 2 k=v\n  stats  \nput\nput m\nput m 1\nput m 1 2\n\n\r\nexit",
	"put m 0 1 a=b\nput m -1 1 a=b\nput m -0.5 1\nput m 10000000000000 1\nput m 12345678901.5 1\nput m x 1\nput m 1x 1\nput m + 1\n",
	"put m 1 NaN a=b\nput m 1 inf\nput m 1 1e400\nput m 1 -0\nput m 1 -0.00\nput m 1 0x10\nput m 1 1.2.3\nput m 1 -\nput m 1 18446744073709551616\n",
	"put m 1 1 a\nput m 1 1 =b\nput m 1 1 a=\nput m 1 1 a=b=c\nput m 1 1 a=b a=b\nput m 1 1 a=b a=c\nput m 1 1 b=1 a=2 b=1\n",
	"put m! 1 1 a=b\nput m 1 1 a:b=c\nput m 1 1 a=b%c\nput é 1 1 a=ü\nput \xff 1 1\nput m\t1 1 1\n",
	"put  m  1  1   a=b  c=d  \nput m 1 1  \nput m 1 1\tx\nputm 1 1\n put m 1 2\n",
	"put m 000000000001 0\n" + strings.Repeat(" ", 20), // found by fuzzing: leading zeros are not magnitude
	"put m 1700000000 1 " + strings.Repeat("k", 300) + "=v\n",
}

func FuzzPuts(f *testing.F) {
	for _, s := range putSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		checkPuts(t, body)
	})
}

func TestPutsAgainstReference(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("abcxyz019-_./é%=")), 1, 20, -1)
	number := rapid.OneOf(
		rapid.StringMatching(`-?[0-9]{1,17}(\.[0-9]{1,12})?`),
		rapid.StringMatching(`[-+]?[0-9]{0,3}\.?[0-9]{0,3}([eE]-?[0-9]{1,3})?`),
	)
	stamp := rapid.OneOf(rapid.StringMatching(`1[0-9]{9}`), rapid.StringMatching(`1[0-9]{12}`), rapid.StringMatching(`-?[0-9]{1,14}(\.[0-9]{0,5})?`))
	line := rapid.Custom(func(t *rapid.T) string {
		s := "put " + word.Draw(t, "metric") + " " + stamp.Draw(t, "time") + " " + number.Draw(t, "value")
		for range rapid.IntRange(0, 4).Draw(t, "tags") {
			s += " " + word.Draw(t, "name") + "=" + word.Draw(t, "value")
		}
		return s + rapid.SampledFrom([]string{"", "", "", "\r", " "}).Draw(t, "end")
	})
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(line, 1, 8).Draw(t, "lines")
		checkPuts(t, strings.Join(lines, "\n")+rapid.SampledFrom([]string{"", "\n"}).Draw(t, "last"))
	})
}

func TestPutsFastPath(t *testing.T) {
	for _, line := range []string{
		"put m 1700000000 20.15 device=d_17 sensor=s_3\n",
		"put sys.cpu.user 1700000000123 -7 host=a\n",
		"put m 1700000000 123456.789012\n",
	} {
		var b Batch
		body := withRoom(line)
		_ = b.reset(body)
		p := putParser{b: &b, pad: padded(body), end: len(body), limits: Limits{}.WithDefaults()}
		if next, ok := p.fast(0); !ok || next != len(line) {
			t.Errorf("%q: not fast", line)
		}
	}
}

func TestPutErrors(t *testing.T) {
	for line, want := range map[string]string{
		"put":                     "put: illegal argument: not enough arguments (need least 3, got 0)",
		"put m 1700000000":        "put: illegal argument: not enough arguments (need least 3, got 2)",
		"put m 17x 1 a=b":         "put: invalid value: Invalid character 'x' in 17x",
		"put m 0 1 a=b":           "put: illegal argument: invalid timestamp: 0",
		"put m 17000000000000 1":  "put: illegal argument: bad timestamp=17000000000000",
		"put m 1 x a=b":           "put: invalid value: Invalid character 'x' in x",
		"put m 1 NaN a=b":         "put: invalid value: Invalid character 'N' in NaN",
		"put m 1 - a=b":           "put: invalid value: Just a sign, no value: -",
		"put m 1 1.2.3 a=b":       `put: invalid value: For input string: "1.2.3"`,
		"put m 1 1e999 a=b":       "put: illegal argument: value is NaN or Infinite: 1e999",
		"put m 1 1 a":             "put: illegal argument: invalid tag: a",
		"put m 1 1 a=1 a=2":       "put: illegal argument: duplicate tag: a=2, tags={a=1}",
		"put m! 1 1 a=b":          `put: illegal argument: Invalid metric name ("m!"): illegal character: !`,
		"put m 1 1 a:=b":          `put: illegal argument: Invalid tag name with value [b] ("a:"): illegal character: :`,
		"put m 1 1 a=b%":          `put: illegal argument: Invalid tag value with key [a] ("b%"): illegal character: %`,
		"put m 1 1 a=1 b=2 c=3":   "put: illegal argument: Too many tags: 3 maximum allowed: 2",
		"put m 1 1 kkkkkkkkkkk=v": "put: illegal argument: max key length exceeded: 17 > 12",
	} {
		limits := Limits{TagsMax: 2, KeyBytesMax: 12}
		var b Batch
		if _, err := Puts(&b, []byte("put ok 1 1\n"+line+"\n"), PutOptions{Limits: limits}); err != nil {
			t.Fatal(err)
		}
		var keys KeyBuilder
		for i := range b.Lines {
			err := keys.Start(&b, &b.Lines[i], nil, limits)
			if err == nil {
				_, err = keys.Key(nil, false)
			}
			if err != nil {
				b.AddError(&b.Lines[i], 1, KindSyntax, err.Error(), 10)
			}
		}
		want += " (line '" + line + "')"
		if len(b.Errors) != 1 || b.Errors[0].Error() != want || b.Errors[0].Number != 2 {
			t.Errorf("%q: %q, want %q", line, messages(&b), want)
		}
	}
}

// TestPutsInPieces cuts a stream at every place: puts and commands stay in order
// and nothing is lost but the line that is too long.
func TestPutsInPieces(t *testing.T) {
	stream := "put a 1 1 k=v\nversion\nput b 2 2 k=v\r\n" + "put " + strings.Repeat("x", 90) + " 1 1\nput c 3 3\nbad\nput d x 4\nput e 5 5\n"
	for piece := 1; piece <= len(stream); piece++ {
		o := PutOptions{Partial: true, Limits: Limits{LineBytesMax: 40}}
		var held []byte
		var order []string
		errors := 0
		for at := 0; at < len(stream); at += piece {
			held = append(held, stream[at:min(at+piece, len(stream))]...)
			var b Batch
			rest, err := Puts(&b, held, o)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := 0, 0; i <= len(b.Lines); i++ {
				for ; c < len(b.Commands) && b.Commands[c].Lines == i; c++ {
					s := b.Commands[c].Text
					order = append(order, string(b.Body[s.Start:s.End]))
				}
				if i < len(b.Lines) {
					order = append(order, string(b.Head(&b.Lines[i])))
				}
			}
			errors += b.ErrorsTotal
			held = append([]byte(nil), held[rest.Consumed:]...)
			o.InsideLine = rest.InsideLine
		}
		if got, want := strings.Join(order, " "), "a version b c bad e"; got != want || errors != 2 || len(held) > 0 {
			t.Fatalf("pieces of %d: %s, %d errors", piece, got, errors)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	var b Batch
	if _, err := Puts(&b, []byte(strings.Repeat("put x\n", 50)), PutOptions{Limits: Limits{ErrorsMax: 7}}); err != nil {
		t.Fatal(err)
	}
	if len(b.Errors) != 7 || b.ErrorsTotal != 50 {
		t.Fatalf("%d errors of %d", len(b.Errors), b.ErrorsTotal)
	}
}

// Where nobody reads answers, a line that is no put is an error, and it counts.
func TestPutsOnly(t *testing.T) {
	var b Batch
	if _, err := Puts(&b, []byte("put m 1 1\nversion\n\n put\nPUT m 1 1\n"), PutOptions{PutsOnly: true}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"2: put: illegal argument: not a put line (line 'version')",
		"4: put: illegal argument: not enough arguments (need least 3, got 0) (line ' put')",
		"5: put: illegal argument: not a put line (line 'PUT m 1 1')",
	}
	var got []string
	for i := range b.Errors {
		got = append(got, strconv.Itoa(b.Errors[i].Number)+": "+b.Errors[i].Error())
	}
	if !slices.Equal(got, want) || len(b.Commands) != 0 || len(b.Lines) != 1 || b.ErrorPoints != 3 {
		t.Errorf("errors %q, %d commands, %d lines, %d points lost", got, len(b.Commands), len(b.Lines), b.ErrorPoints)
	}
}

// withPut puts the word put before each line that has something and lacks it.
func withPut(body string) string {
	lines := strings.Split(body, "\n")
	for i, line := range lines {
		words := slices.DeleteFunc(strings.Split(strings.TrimSuffix(line, "\r"), " "), func(w string) bool { return w == "" })
		if len(words) > 0 && words[0] != "put" {
			lines[i] = "put " + line
		}
	}
	return strings.Join(lines, "\n")
}

// FuzzBarePuts holds what is said without the word put to what is said with it.
func FuzzBarePuts(f *testing.F) {
	f.Add("m 1700000000 20.15 device=d_17 sensor=s_3\nput m 1700000000 20.15 device=d_17 sensor=s_3\n  m.b  1700000000.5 1e5\r\nm 1 -5\n" +
		"puts 1 1 a=b\nputm 1 1\n\nm\nm 1\nm 1 x\nversion\nput\nput 1 2 3\nPUT m 1 1\nm! 1 1 a=b\nm 1 1")
	for _, seed := range putSeeds {
		f.Add(strings.ReplaceAll(seed, "put ", ""))
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		want := referencePuts(withPut(body))
		for _, memory := range []func(string) []byte{withRoom, exact} {
			var b Batch
			if _, err := Puts(&b, memory(body), PutOptions{Bare: true}); err != nil {
				t.Fatal(err)
			}
			if d := difference(resultOf(&b, "db", Limits{}), want); d != "" || len(b.Commands) > 0 {
				t.Fatalf("%q: %s (errors %v), %d commands", body, d, messages(&b), len(b.Commands))
			}
		}
	})
}

// BenchmarkPuts parses lines with both kinds of line ends.
func BenchmarkPuts(b *testing.B) {
	for _, end := range []string{"\n", "\r\n"} {
		body := withRoom(strings.Repeat("put sys.cpu.user 1700000000 12.25 host=web01 cpu=0"+end, 200))
		b.Run(strconv.Quote(end), func(b *testing.B) {
			var batch Batch
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if _, err := Puts(&batch, body, PutOptions{}); err != nil || len(batch.Points) != 200 {
					b.Fatal(err)
				}
				n += 200
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/point")
		})
	}
}
