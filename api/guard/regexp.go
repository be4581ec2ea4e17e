package guard

import (
	"errors"
	"fmt"
	"math"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Limits of regular expressions. Their size stands for the memory and the time that it takes to
// parse, simplify and compile them, with repetitions written out: each character of a literal
// counts one, and each part of an expression three more.
const (
	// RegexpSizeMax bounds the sizes of all expressions of one query together. A list of 2,000
	// names of 40 characters is within it.
	RegexpSizeMax = 100_000
	// RegexpSizeInnerMax bounds one expression where it comes from another process of the
	// cluster, which has checked the query: routers put anchors and wildcards around what a
	// client wrote.
	RegexpSizeInnerMax = RegexpSizeMax + 1<<10
	// capturesMax bounds the size of an expression times its groups: whoever matches holds a list
	// of all groups (16 bytes each) for each of the states that it is in.
	capturesMax = 1 << 20
	// namedClassesMax bounds \pL and its like in one expression: each takes three bytes of the
	// text and several kilobytes parsed, before the size of anything is known.
	namedClassesMax = 100
	// foldedClassesMax bounds classes in one expression that ignores case and names characters
	// beyond ASCII: to fold a wide range takes milliseconds.
	foldedClassesMax = 2
)

// Regexp checks a regular expression before it is compiled, and counts its size. An expression
// that is not valid passes: who compiles it reports that. Error: ErrTooLarge.
func (m *Meter) Regexp(expression string) error {
	size, err := regexpSize(expression, RegexpSizeMax-m.size)
	if err != nil {
		return err
	}
	m.size += size
	return nil
}

// Regexp checks one regular expression that another process of the cluster has checked as part
// of a query, or that stands alone. Error: ErrTooLarge.
func Regexp(expression string) error {
	_, err := regexpSize(expression, RegexpSizeInnerMax)
	return err
}

func regexpSize(expression string, sizeMax int) (int, error) {
	if len(expression) > TextBytesMax {
		return 0, fmt.Errorf("%w: a regular expression has %d bytes, more than %d", ErrTooLarge, len(expression), TextBytesMax)
	}
	if err := checkClasses(expression); err != nil {
		return 0, err
	}
	tree, err := syntax.Parse(expression, syntax.Perl)
	var invalid *syntax.Error
	size := math.MaxInt32
	switch {
	case err == nil:
		size = sizeOf(tree)
	case !errors.As(err, &invalid) || invalid.Code != syntax.ErrLarge:
		return 0, nil // who compiles it says so, in the words of the dialect
	}
	if size > sizeMax {
		return 0, fmt.Errorf("%w: its regular expressions come to more than %d characters and operators, repetitions written out: have them repeat less, or list fewer alternatives", ErrTooLarge, RegexpSizeMax)
	}
	if groups := tree.MaxCap(); size*groups > capturesMax+RegexpSizeInnerMax {
		return 0, fmt.Errorf("%w: a regular expression has %d groups that capture: write (?:…) for (…)", ErrTooLarge, groups)
	}
	return size, nil
}

// checkClasses bounds what parsing alone makes of an expression. It looks at the text, and counts
// rather too many than too few.
func checkClasses(expression string) error {
	if n := strings.Count(expression, `\p`) + strings.Count(expression, `\P`); n > namedClassesMax {
		return fmt.Errorf("%w: a regular expression has %d classes like \\pL, more than %d", ErrTooLarge, n, namedClassesMax)
	}
	classes := strings.Count(expression, "[")
	if classes <= foldedClassesMax || !ignoresCase(expression) || !beyondASCII(expression) {
		return nil
	}
	return fmt.Errorf("%w: a regular expression that ignores case and names characters beyond ASCII has %d classes, more than %d", ErrTooLarge, classes, foldedClassesMax)
}

// ignoresCase reports whether an expression may have the flag i: (?i), (?s-mi:…).
func ignoresCase(expression string) bool {
	for {
		_, rest, found := strings.Cut(expression, "(?")
		if !found {
			return false
		}
		flags := rest[:len(rest)-len(strings.TrimLeft(rest, "imsU-"))]
		if strings.Contains(flags, "i") {
			return true
		}
		expression = rest
	}
}

// beyondASCII reports whether an expression may name a character beyond ASCII, as it is or by
// its number.
func beyondASCII(expression string) bool {
	for i := 0; i < len(expression); i++ {
		if expression[i] >= utf8.RuneSelf {
			return true
		}
		if expression[i] == '\\' && i+1 < len(expression) && strings.IndexByte("x01234567pP", expression[i+1]) >= 0 {
			return true
		}
	}
	return false
}

// What parts of an expression count, beside the characters of literals.
const (
	partSize         = 3
	classEndsPerSize = 4 // ends of ranges of a class that count one
)

// sizeOf returns the size of an expression, at most math.MaxInt32. The standard library bounds
// how deep a parsed expression is nested (1,000 levels), so this ends.
func sizeOf(re *syntax.Regexp) int {
	size := 0
	for _, sub := range re.Sub {
		size = bounded(size + sizeOf(sub))
	}
	switch re.Op {
	case syntax.OpRepeat:
		if re.Max < 0 { // x{2,} is xx+
			size *= max(1, re.Min)
		} else { // x{2,5} is xx(x(x(x)?)?)?; the parser lets nothing repeat more than 1,000 times
			size = size*re.Min + (size+1+partSize)*(re.Max-re.Min)
		}
	case syntax.OpAlternate:
		size += len(re.Sub)
	case syntax.OpCapture:
		size += 2 // it begins and it ends
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size = 1 + len(re.Rune)/classEndsPerSize
	default:
		size++
	}
	return bounded(size + partSize)
}

func bounded(size int) int { return min(size, math.MaxInt32) }
