package guard

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	if _, err := NewMeter(TextBytesMax); err != nil {
		t.Error(err)
	}
	if _, err := NewMeter(TextBytesMax + 1); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestCounts(t *testing.T) {
	for name, c := range map[string]struct {
		count func(*Meter) error
		max   int
	}{
		"tokens": {(*Meter).Token, TokensMax}, "operators": {(*Meter).Operator, OperatorsMax},
		"depth": {(*Meter).Open, DepthMax}, "closing": {(*Meter).Close, TokensMax},
		"brackets": {func(m *Meter) error { return errors.Join(m.Open(), m.Close()) }, TokensMax / 2},
	} {
		var m Meter
		for i := range c.max {
			if err := c.count(&m); err != nil {
				t.Fatal(name, i, err)
			}
		}
		if err := c.count(&m); !errors.Is(err, ErrTooLarge) {
			t.Error(name, err)
		}
	}
}

// TestClosingFirst: brackets that close nothing make no room for more that open.
func TestClosingFirst(t *testing.T) {
	var m Meter
	for range 100 {
		_ = m.Close()
	}
	for range DepthMax {
		if err := m.Open(); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Open(); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestRegexp(t *testing.T) {
	wrap := func(text string) string { return "(?s:.*)(?:" + text + ")(?s:.*)" }
	fits := []string{
		"", "a", "(", "a{1001}", `\`, // what is not valid is somebody else's to refuse
		strings.Repeat("a", RegexpSizeMax-partSize), ".*", `^(web|db)-\d+$`,
		strings.TrimSuffix(strings.Repeat("server-with-a-long-name-0001.example.com|", 2000), "|"),
		strings.Repeat(`\pL`, namedClassesMax), "(?i)" + strings.Repeat("[a-z]", 1000), "(?i)" + strings.Repeat(`[B-\x{1e942}]`, foldedClassesMax),
		strings.Repeat("(a|b)", 100),
	}
	for _, text := range fits {
		var m Meter
		if err := m.Regexp(text); err != nil {
			t.Errorf("%.40q: %v", text, err)
		}
		if err := Regexp(wrap(text)); err != nil {
			t.Errorf("%.40q, wrapped: %v", text, err)
		}
	}
	beyond := []string{
		strings.Repeat("a", RegexpSizeMax-partSize+1), strings.Repeat("a", TextBytesMax+1),
		strings.Repeat("(a{1000})", 30), strings.Repeat("(?:a{500}){2}", 40), strings.Repeat("(.*a)*", 4000),
		strings.Repeat("(a)", 400), strings.Repeat("[^a-z]", 20_000), "((a{10}){10}){10}" + strings.Repeat("(b{0,900})", 20),
		strings.Repeat(`\PL`, namedClassesMax+1), "(?s-i)" + strings.Repeat(`[B-\x{1e942}]`, foldedClassesMax+1),
		"(?im:" + strings.Repeat("[b-ÿ]", foldedClassesMax+1) + ")", "a(?i)" + strings.Repeat(`[B-\777]`, foldedClassesMax+1),
	}
	for _, text := range beyond {
		if err := new(Meter).Regexp(text); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// TestRegexpsOfOneQuery: sizes add up.
func TestRegexpsOfOneQuery(t *testing.T) {
	var m Meter
	half := strings.Repeat("a", RegexpSizeMax/2-partSize)
	for range 2 {
		if err := m.Regexp(half); err != nil {
			t.Fatal(err)
		}
	}
	before := m.Bytes()
	if err := m.Regexp("a"); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if m.Bytes() != before || before < RegexpSizeMax {
		t.Error(before, m.Bytes())
	}
}

// FuzzRegexp: what is let pass compiles to a program that is no larger than its size. The
// compiler of the standard library is the oracle.
func FuzzRegexp(f *testing.F) {
	for _, text := range []string{"a", "(a|b)*c{2,7}d{3,}", `^[^\pL]+?$`, "(?i)straße[a-é]", "x{0}y{0,3}", "(?:(?:a{30}){30}){1}", "(|a)*()", "a??b*?"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if Regexp(text) != nil {
			return
		}
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return
		}
		size := sizeOf(tree)
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if len(program.Inst) > size+4 { // it fails, matches, and begins with a jump
			t.Fatalf("%q: %d instructions, size %d", text, len(program.Inst), size)
		}
	})
}
