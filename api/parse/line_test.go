package parse

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The reference parser: InfluxDB 1.8's rules (models/points.go), followed one
// character at a time over strings. It knows the declared differences of Lines.

type refLine struct {
	o      LineOptions
	result result
	number int
	// refused are the strings that are errors, of which a line has one for all of its.
	refused int
}

func referenceLines(body string, o LineOptions) (_ result, refused int) {
	r := refLine{o: o}
	line := 1
	for len(body) > 0 {
		end := refLineEnd(body)
		text := body[:min(end, len(body))]
		r.number = line
		line += 1 + strings.Count(text, "\n")
		r.line(text)
		body = body[min(end+1, len(body)):]
	}
	return r.result, r.refused
}

func refLineEnd(s string) int {
	quoted, fields, equals, commas := false, false, 0, 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
			continue
		}
		if s[i] == ' ' {
			fields = true
		}
		if fields {
			if !quoted && s[i] == '=' {
				equals++
			}
			if !quoted && s[i] == ',' {
				commas++
			}
			if s[i] == '"' && equals > commas {
				quoted = !quoted
			}
		}
		if s[i] == '\n' && !quoted {
			return i
		}
	}
	return len(s)
}

func (r *refLine) line(text string) {
	text = strings.TrimLeft(strings.TrimSuffix(text, "\r"), " \t\x00")
	if text == "" || text[0] == '#' {
		return
	}
	points, skipped, ok := r.parse(text)
	if !ok {
		r.result.errors = append(r.result.errors, r.number)
		return
	}
	r.result.points = append(r.result.points, points...)
	if skipped > 0 && r.o.RefuseText {
		r.result.errors = append(r.result.errors, r.number)
		r.refused += skipped
		return
	}
	r.result.strings += skipped
}

func (r *refLine) parse(text string) (points []resultPoint, skipped int, ok bool) {
	head, rest, found := refCut(text, " ")
	if !found {
		return nil, 0, false
	}
	parts := refSplit(head, ",")
	metric := refUnescape(parts[0], `," =`)
	if parts[0] == "" {
		return nil, 0, false
	}
	tags := map[string]string{}
	for _, part := range parts[1:] {
		name, value, found := refCut(part, "=")
		if !found || name == "" || value == "" {
			return nil, 0, false
		}
		// The first character of a value may be an =, as InfluxDB looks at the
		// second one first.
		if _, _, second := refCut(strings.TrimPrefix(value, "="), "="); second && len(value) > 1 {
			return nil, 0, false
		}
		name, value = refUnescape(name, ", ="), refUnescape(value, ", =")
		if _, twice := tags[name]; twice || name == "_field" {
			return nil, 0, false
		}
		tags[name] = value
	}
	fields, rest, ok := refFields(strings.TrimLeft(rest, " \t\x00"))
	if !ok {
		return nil, 0, false
	}
	timeMs, ok := r.time(strings.TrimLeft(rest, " \t\x00"))
	if !ok {
		return nil, 0, false
	}
	for _, f := range fields {
		if f.value[0] == '"' {
			skipped++
			continue
		}
		v, ok := refValue(f.value)
		if !ok {
			return nil, 0, false
		}
		all := map[string]string{}
		for name, value := range tags {
			all[name] = value
		}
		if name := refUnescape(f.name, `," =`); name != "value" {
			all["_field"] = name
		}
		points = append(points, resultPoint{r.number, keyOf("db", metric, all), timeMs, math.Float64bits(v)})
	}
	return points, skipped, true
}

// refCut cuts at the first separator behind the first character that has no
// backslash before it.
func refCut(s, separator string) (before, after string, found bool) {
	for i := range len(s) {
		if s[i:i+1] == separator && (i == 0 || s[i-1] != '\\') {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func refSplit(s, separator string) (parts []string) {
	for found := true; found; {
		var part string
		part, s, found = refCut(s, separator)
		parts = append(parts, part)
	}
	return parts
}

func refUnescape(s, special string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.Contains(special, s[i+1:i+2]) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

type refField struct{ name, value string }

// refFields takes the fields off the text: up to a space that is not quoted.
func refFields(s string) (fields []refField, rest string, ok bool) {
	var f refField
	inValue, quoted, isString := false, false, false
	done := func() bool {
		fields = append(fields, f)
		complete := inValue && f.name != "" && f.value != "" && !quoted
		f, inValue, isString = refField{}, false, false
		return complete
	}
	for i := 0; i < len(s); i++ {
		c := s[i : i+1]
		if inValue && f.value == "" {
			isString = c == `"`
		}
		switch {
		case c == `\` && i+1 < len(s) && (isString || !inValue):
			i++
			c = s[i-1 : i+1]
		case c == `"` && isString:
			quoted = !quoted
		case quoted:
		case c == " ":
			if !done() {
				return nil, "", false
			}
			return fields, s[i:], true
		case c == ",":
			if !done() {
				return nil, "", false
			}
			continue
		case c == "=" && !inValue:
			inValue = true
			continue
		case c == "=" && isString:
			return nil, "", false
		}
		if inValue {
			f.value += c
		} else {
			f.name += c
		}
	}
	return fields, "", done()
}

func refValue(s string) (float64, bool) {
	switch s {
	case "t", "T", "true", "TRUE", "True":
		return 1, true
	case "f", "F", "false", "FALSE", "False":
		return 0, true
	}
	if strings.Trim(s, "0123456789.eE+-iu") != "" || s[0] == '+' {
		return 0, false
	}
	if digits, found := strings.CutSuffix(s, "i"); found {
		v, err := strconv.ParseInt(digits, 10, 64)
		return float64(v), err == nil
	}
	if digits, found := strings.CutSuffix(s, "u"); found {
		v, err := strconv.ParseUint(digits, 10, 64)
		return float64(v), err == nil
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && s[0] != 'e' && s[0] != 'E'
}

func (r *refLine) time(s string) (int64, bool) {
	s = strings.TrimRight(s, " ")
	unit := map[Precision]int64{PrecisionNs: 1, PrecisionUs: 1e3, PrecisionMs: 1e6, PrecisionS: 1e9, PrecisionM: 60e9, PrecisionH: 3600e9}
	if s == "" {
		ms := max(1, unit[r.o.Precision]/1e6)
		return int64(math.Floor(float64(r.o.NowMs)/float64(ms))) * ms, true
	}
	t, err := strconv.ParseInt(s, 10, 64)
	if err != nil || s[0] == '+' {
		return 0, false
	}
	u := unit[r.o.Precision]
	if r.o.Precision == PrecisionGuess {
		u = 1
		size := t // of integers: as a float, what is just below a bound is the bound
		if t < 0 {
			size = -t
		}
		switch {
		case size < 1e11:
			u = 1e9
		case size < 1e14:
			u = 1e6
		case size < 1e17:
			u = 1e3
		}
	}
	ns := t * u
	if ns/u != t || ns < math.MinInt64+2 || ns > math.MaxInt64-1 {
		return 0, false
	}
	ms := ns / 1e6
	if ns%1e6 < 0 {
		ms--
	}
	return ms, true
}

// checkLines parses a body in every way and compares with the reference.
func checkLines(t interface{ Fatalf(string, ...any) }, body string, o LineOptions) {
	want, refused := referenceLines(body, o)
	for _, memory := range []func(string) []byte{withRoom, exact} {
		var b Batch
		rest, err := Lines(&b, memory(body), o)
		if err != nil || rest.Consumed != len(body) || rest.InsideLine {
			t.Fatalf("%q: %v, %+v", body, err, rest)
		}
		if d := difference(resultOf(&b, "db", o.Limits), want); d != "" {
			t.Fatalf("%q: %s (errors %v)", body, d, messages(&b))
		}
		checkShapes(t, &b)
		unsupported := 0
		for i := range b.Errors {
			if b.Errors[i].Kind == KindUnsupported {
				unsupported += b.Errors[i].Points
			}
		}
		if unsupported != refused {
			t.Fatalf("%q: %d strings refused, want %d", body, unsupported, refused)
		}
	}
}

// checkShapes checks that lines of one shape have the same field names.
func checkShapes(t interface{ Fatalf(string, ...any) }, b *Batch) {
	names := func(l *Line) (s string) {
		for _, p := range b.Points[l.First : l.First+l.Count] {
			s += fmt.Sprintf("%q %v,", b.Field(&p), p.FieldEscaped)
		}
		return s
	}
	for i := range b.Lines {
		l := &b.Lines[i]
		if l.Shape > uint32(i) || names(l) != names(&b.Lines[l.Shape]) {
			t.Fatalf("%q: line %d is not of shape %d", b.Body, i, l.Shape)
		}
	}
}

func messages(b *Batch) (all []string) {
	for i := range b.Errors {
		all = append(all, b.Errors[i].Error())
	}
	return all
}

var lineSeeds = []string{
	"m,device=d_17 s_0=20.15,s_1=123456i,s_2=-0.5 1700000000000000000\n",
	"m a=1\nm a=2,b=3 17\nm a=4,b=5 18\nm b=4,a=5\n",
	"m,t=v value=1\n\n# comment\n  m,t=v value=2 5  \n\t\n",
	`m\ x\,y,t\ a\=b=c\,d\ e f\ \,\="g=1,h="x, y = \" \\ z",i=2i 7` + "\n",
	`m s="multi` + "\n" + `line",v=1 3` + "\nm v=2\n",
	"m a=t,b=T,c=true,d=TRUE,e=True,f=f,g=F,h=false,i=FALSE,j=False\n",
	"m a=1e5,b=1E-3,c=.5,d=5.,e=-.5,f=1e400\nm a=-0,b=-0i,c=0u,d=18446744073709551615u,e=9223372036854775807i\n",
	"m a=9223372036854775808i\nm a=1iu\nm a=1.5i\nm a=NaN\nm a=inf\nm a=-\nm a=0x10\nm a=1_0\n",
	"m\nm \nm,\nm,a\nm,a=\nm,a=b\nm,=b c=1\nm,a=b,a=c d=1\nm,a==b c=1\nm,a=b=c d=1\n",
	"m =1\nm a=\nm a=,b=1\nm a\nm a,b=1\nm a=1,\nm a=1,=2\nm a=1 x\nm a=1 5 6\nm a=1 -5\nm a=1 -\n",
	"m a=\"x\nm b=1\n",
	"m a=\"x\"y,b=1\nm a=\"x\"=1\nm a=\"x\"\\ b=2\n",
	"m,_field=x a=1\nm,t=v _field=1\n",
	"m a=1 1700000000\r\nm b=2\r\n",
	"m a=1 9223372036854775807\nm a=1 99999999999999999999\n",
	"\x00 m a=1\nm\ta b=1\nm a=1\t5\n",
	"m 0123456789=1,0123456789a=2\nm 0123456789=1,0123456789a=2\n",
	"m a=t,b=\"x, y=1\",c=2 17\nm a=f,b=\"z\",c=3 17\nm a=1,c=\"2\" 17\nm a=tx\nm a=truex\nm a=\"x\"\nm s=\"x\",a=false 18\nm s=\"x\"y,a=1 18\n",
	`m\ x,t=a\\ \"b c=1,d="` + "\n" + `" 17` + "\n",
	"m,t=\xff\xfe v=1\n", "\\\n=1\n", "a\\ b=1\n", `a\\ b=1`, `m a\\=1`, " m,a=\"b =c\n,d=\" e=1\n",
}

func FuzzLines(f *testing.F) {
	for i, s := range lineSeeds {
		f.Add(s, byte(i))
		f.Add(s, byte(128+i))
	}
	f.Fuzz(func(t *testing.T, body string, precision byte) {
		checkLines(t, body, LineOptions{Precision: Precision(precision % 7), NowMs: -1234567, RefuseText: precision >= 128})
	})
}

// drawLine makes lines that are mostly legal, of the characters that matter.
func drawLine(t *rapid.T) string {
	name := rapid.StringOfN(rapid.SampledFrom([]rune(`abcdefgh_0"é`)), 1, 12, -1)
	value := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string {
			return strconv.FormatFloat(rapid.Float64().Draw(t, "f"), byte(rapid.SampledFrom([]rune("efg")).Draw(t, "verb")), -1, 64)
		}),
		rapid.Custom(func(t *rapid.T) string {
			return strconv.FormatFloat(float64(rapid.Int32().Draw(t, "n"))/100, 'f', rapid.IntRange(0, 9).Draw(t, "places"), 64)
		}),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.Int64().Draw(t, "i"), "i") }),
		rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{0,10})?[iu]?`),
		rapid.SampledFrom([]string{"t", "false", `"a, b = c"`, `"\""`, "-0", "x", ""}),
	)
	var s strings.Builder
	s.WriteString(name.Draw(t, "metric"))
	for range rapid.IntRange(0, 3).Draw(t, "tags") {
		s.WriteString("," + name.Draw(t, "tag") + "=" + name.Draw(t, "value"))
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "fields") {
		s.WriteString(" ,,,,,"[i:i+1] + rapid.SampledFrom([]string{"a", "bb", "value", "long_field_name", `x\ y`}).Draw(t, "field") + "=" + value.Draw(t, "number"))
	}
	s.WriteString(rapid.SampledFrom([]string{"", " 1700000000000000000", " 1700000000", " -5", "  7 ", " x"}).Draw(t, "time"))
	line := s.String()
	if rapid.IntRange(0, 9).Draw(t, "spoil") == 0 { // put a byte somewhere
		at := rapid.IntRange(0, len(line)).Draw(t, "at")
		line = line[:at] + rapid.SampledFrom([]string{" ", ",", "=", `"`, `\`, "\r", "\t", "#", "0", "-"}).Draw(t, "byte") + line[at:]
	}
	return line
}

func TestLinesAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.Custom(drawLine), 1, 8).Draw(t, "lines")
		o := LineOptions{Precision: Precision(rapid.IntRange(0, 6).Draw(t, "precision")), NowMs: rapid.Int64Range(-1e12, 2e12).Draw(t, "now"), RefuseText: rapid.Bool().Draw(t, "refuse text")}
		checkLines(t, strings.Join(lines, "\n")+rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end"), o)
	})
}

// TestLinesFastPath checks that the common lines do take the fast path.
func TestLinesFastPath(t *testing.T) {
	for _, line := range []string{
		"m,device=d_17 s_0=20.15,s_1=123456i,s_2=-0.5,s_3=7 1700000000000000000\n",
		"system,host=a up=true,down=f,load=0.5,uptime=\"3 days, 1:02\",n=4i 1700000000\n",
		"disk,path=/var\\ log,host=a free=1i 1700000000\n",
		"cpu,host=web01 usage_idle=99.123456,usage_user=0.5\n",
		"m,a=b,c=d value=12345678901.5,long_field_name=1234567890123456i 1700000000\n",
	} {
		b := Batch{}
		body := withRoom(line)
		p := lineParser{b: &b, pad: padded(body), end: len(body), limits: Limits{}.WithDefaults()}
		_ = b.reset(body)
		if next, ok := p.fast(0); !ok || next != len(line) {
			t.Errorf("%q: not fast", line)
		}
	}
}

func TestLineErrors(t *testing.T) {
	for line, want := range map[string]string{
		"m":                          "unable to parse 'm': missing fields",
		",a=b c=1":                   "unable to parse ',a=b c=1': missing measurement",
		"m,a=b":                      "unable to parse 'm,a=b': missing fields",
		"m,a c=1":                    "unable to parse 'm,a c=1': missing tag value",
		"m,a= c=1":                   "unable to parse 'm,a= c=1': missing tag value",
		"m,=b c=1":                   "unable to parse 'm,=b c=1': missing tag key",
		"m,a=b=c d=1":                "unable to parse 'm,a=b=c d=1': invalid tag format",
		"m,a=1,a=2 d=1":              "unable to parse 'm,a=1,a=2 d=1': duplicate tags",
		"m a":                        "unable to parse 'm a': invalid field format",
		"m a=":                       "unable to parse 'm a=': missing field value",
		"m a=1,=2":                   "unable to parse 'm a=1,=2': missing field key",
		"m a=1x":                     "unable to parse 'm a=1x': invalid number",
		"m a=NaN":                    "unable to parse 'm a=NaN': invalid number",
		"m a=1e999":                  "unable to parse 'm a=1e999': invalid float",
		"m a=x":                      "unable to parse 'm a=x': invalid boolean",
		`m a="x`:                     "unable to parse 'm a=\"x\n': unbalanced quotes",
		"m a=1 x":                    "unable to parse 'm a=1 x': bad timestamp",
		"m a=1 1 2":                  "unable to parse 'm a=1 1 2': point is invalid",
		"m a=9223372036854775808i":   `unable to parse 'm a=9223372036854775808i': unable to parse integer 9223372036854775808: strconv.ParseInt: parsing "9223372036854775808": value out of range`,
		"m a=1 -9223372036854775808": "unable to parse 'm a=1 -9223372036854775808': time outside range -9223372036854775806 - 9223372036854775806",
		"m,_field=a b=1":             `unable to parse 'm,_field=a b=1': tag key "_field" is reserved`,
	} {
		var b Batch
		if _, err := Lines(&b, []byte("ok v=1\n"+line+"\n"), LineOptions{}); err != nil {
			t.Fatal(err)
		}
		var keys KeyBuilder
		for i := range b.Lines {
			if err := keys.Start(&b, &b.Lines[i], nil, Limits{}); err != nil {
				b.AddError(&b.Lines[i], 1, KindSyntax, err.Error(), 10)
			}
		}
		if len(b.Errors) != 1 || b.Errors[0].Error() != want || b.Errors[0].Number != 2 {
			t.Errorf("%q: %q, want %q", line, messages(&b), want)
		}
	}
}

// TestLinesInPieces cuts a stream at every place.
func TestLinesInPieces(t *testing.T) {
	stream := "m,t=v a=1,b=2 17\nbad\n\nm s=\"x\ny\",v=3\n# c\n" + strings.Repeat("x", 100) + " a=1\nm a=4\nm a=5\n"
	o := LineOptions{Partial: true, Limits: Limits{LineBytesMax: 60}}
	want, _ := referenceLines(strings.Replace(stream, strings.Repeat("x", 100)+" a=1", "toolong", 1), LineOptions{})
	for piece := 1; piece <= len(stream); piece++ {
		var all result
		var held []byte
		number := 0
		for at := 0; at < len(stream); at += piece {
			held = append(held, stream[at:min(at+piece, len(stream))]...)
			var b Batch
			rest, err := Lines(&b, held, o)
			if err != nil {
				t.Fatal(err)
			}
			r := resultOf(&b, "db", o.Limits)
			all.points = append(all.points, r.points...)
			number += len(r.errors)
			all.strings += r.strings
			held = append([]byte(nil), held[rest.Consumed:]...)
			o.InsideLine = rest.InsideLine
			if len(held) > 60 {
				t.Fatalf("pieces of %d: %d bytes held back", piece, len(held))
			}
		}
		if len(held) > 0 || number != len(want.errors) || len(all.points) != len(want.points) || all.strings != want.strings {
			t.Fatalf("pieces of %d: %d errors, points %v, %d held", piece, number, all.points, len(held))
		}
		for i, p := range all.points {
			if p.series != want.points[i].series || p.bits != want.points[i].bits || p.timeMs != want.points[i].timeMs {
				t.Fatalf("pieces of %d: %v, want %v", piece, p, want.points[i])
			}
		}
	}
}

// Bodies that LinesEnd lets join mean together what they mean one by one.
func TestLinesEnd(t *testing.T) {
	for body, want := range map[string]bool{
		"m a=1\n":             true,
		"m a=\"b\" 1\n":       true,
		"m a=\"b\n":           false,
		"m a=\"b\nm a=\"\n":   true, // the string goes on in the next line, and ends there
		"m,t=\\ a a=1\n":      true,
		"m a=1 1\\\n":         false,
		"m a=\"b\\\" 1\n":     false,
		"# \"a\nm a=1\n":      true,
		"m,t=\"a a=1\n":       true, // a quote in a tag is a character
		"m a=1,b=\"x\\\\\"\n": true,
	} {
		if got := LinesEnd([]byte(body)); got != want {
			t.Errorf("%q: %v, want %v", body, got, want)
		}
	}
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"m a=1", " 1", "\"", "\\", ",b=", "x", "\n"}), 0, 8).Draw(t, "pieces"), "") + "\n"
	})
	o := LineOptions{Precision: PrecisionNs, NowMs: 5}
	count := func(body string) (points, errors int) {
		var b Batch
		if _, err := Lines(&b, withRoom(body), o); err != nil {
			t.Fatal(err)
		}
		return len(b.Points), b.ErrorsTotal
	}
	rapid.Check(t, func(t *rapid.T) {
		first, second := text.Draw(t, "first"), text.Draw(t, "second")
		if !LinesEnd([]byte(first)) {
			return
		}
		points1, errors1 := count(first)
		points2, errors2 := count(second)
		if points, errors := count(first + second); points != points1+points2 || errors != errors1+errors2 {
			t.Fatalf("%q and %q: %d points and %d errors, together %d and %d", first, second, points1+points2, errors1+errors2, points, errors)
		}
	})
}

// BenchmarkLines parses lines of ten fields, the plain ones as agents send them and others that
// take the general way, as a tag is escaped.
func BenchmarkLines(b *testing.B) {
	for name, host := range map[string]string{"plain": "web01", "escaped": `web\\ 01`} {
		body := withRoom(strings.Repeat("cpu,host="+host+" a=12.25,b=1,c=0.5,d=99.75,e=3i,f=1.5,g=7.25,h=8,i=2.125,j=10 1700000000000\n", 20))
		b.Run(name, func(b *testing.B) {
			var batch Batch
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if _, err := Lines(&batch, body, LineOptions{Precision: PrecisionMs}); err != nil || len(batch.Points) != 200 {
					b.Fatal(err, len(batch.Points))
				}
				n += 200
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/point")
		})
	}
}
