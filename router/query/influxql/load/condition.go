package load

import (
	"regexp/syntax"
	"slices"
	"strings"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Condition is WHERE over one measurement, without time.
type Condition struct {
	Matchers []scan.Matcher // what the index can decide: all of them hold
	Rest     ql.Expr        // what is left; nil: nothing
	Fields   []string       // that rest compares
}

// SplitCondition takes comparisons of tags with constants, joined by AND, out of a
// condition. A name that is no field of the measurement is that of a tag.
func SplitCondition(expr ql.Expr, m *Measurement) Condition {
	var c Condition
	c.take(expr, m)
	seen := map[string]bool{}
	if c.Rest != nil {
		ql.WalkFunc(c.Rest, func(n ql.Node) {
			if ref, ok := n.(*ql.VarRef); ok && m.HasField(ref.Val) && !seen[ref.Val] {
				seen[ref.Val] = true
				c.Fields = append(c.Fields, ref.Val)
			}
		})
	}
	return c
}

func (c *Condition) take(expr ql.Expr, m *Measurement) {
	switch expr := expr.(type) {
	case nil:
		return
	case *ql.ParenExpr:
		c.take(expr.Expr, m)
		return
	case *ql.BooleanLiteral:
		if expr.Val {
			return
		}
	case *ql.BinaryExpr:
		if expr.Op == ql.AND {
			c.take(expr.LHS, m)
			c.take(expr.RHS, m)
			return
		}
		if matcher, ok := matcherOf(expr, m); ok {
			c.Matchers = append(c.Matchers, matcher)
			return
		}
	}
	if c.Rest == nil {
		c.Rest = expr
	} else {
		c.Rest = &ql.BinaryExpr{Op: ql.AND, LHS: c.Rest, RHS: expr}
	}
}

// matcherOf returns the matcher of one comparison, or of equalities of one tag joined by OR.
func matcherOf(expr *ql.BinaryExpr, m *Measurement) (scan.Matcher, bool) {
	if expr.Op == ql.OR {
		return unionOf(expr, m)
	}
	ref, ok := unwrap(expr.LHS).(*ql.VarRef)
	literal := unwrap(expr.RHS)
	if !ok {
		ref, ok = unwrap(expr.RHS).(*ql.VarRef)
		literal = unwrap(expr.LHS)
	}
	if !ok || m.HasField(ref.Val) || ref.Val == "_name" {
		return scan.Matcher{}, false
	}
	matcher := scan.Matcher{Name: ref.Val}
	switch literal := literal.(type) {
	case *ql.StringLiteral:
		matcher.Values = []string{literal.Val}
		switch expr.Op {
		case ql.EQ:
			matcher.Kind = scan.MatchEqual
			return matcher, true
		case ql.NEQ:
			matcher.Kind = scan.MatchNotEqual
			return matcher, true
		}
	case *ql.RegexLiteral:
		if expr.Op == ql.EQREGEX || expr.Op == ql.NEQREGEX {
			return regexMatcher(ref.Val, literal.Val.String(), expr.Op == ql.EQREGEX), true
		}
	}
	return scan.Matcher{}, false
}

// unionOf joins comparisons of one tag with constants: a = 'x' OR a = 'y'.
func unionOf(expr *ql.BinaryExpr, m *Measurement) (scan.Matcher, bool) {
	left, ok := unwrap(expr.LHS).(*ql.BinaryExpr)
	if !ok {
		return scan.Matcher{}, false
	}
	right, ok := unwrap(expr.RHS).(*ql.BinaryExpr)
	if !ok {
		return scan.Matcher{}, false
	}
	a, ok := matcherOf(left, m)
	if !ok || a.Kind != scan.MatchEqual && a.Kind != scan.MatchIn {
		return scan.Matcher{}, false
	}
	b, ok := matcherOf(right, m)
	if !ok || b.Kind != scan.MatchEqual && b.Kind != scan.MatchIn || a.Name != b.Name {
		return scan.Matcher{}, false
	}
	return scan.Matcher{Name: a.Name, Kind: scan.MatchIn, Values: append(a.Values, b.Values...)}, true
}

func unwrap(expr ql.Expr) ql.Expr {
	for {
		p, ok := expr.(*ql.ParenExpr)
		if !ok {
			return expr
		}
		expr = p.Expr
	}
}

// regexMatcher returns the matcher of a regular expression, which need not be anchored. One
// that says nothing but a list of texts, as Grafana writes it, becomes that list.
func regexMatcher(name, pattern string, want bool) scan.Matcher {
	if texts, ok := TextsOf(pattern); ok {
		kind := scan.MatchIn
		if !want {
			kind = scan.MatchNotIn
		}
		return scan.Matcher{Name: name, Kind: kind, Values: texts}
	}
	kind := scan.MatchRegexp
	if !want {
		kind = scan.MatchNotRegexp
	}
	return scan.Matcher{Name: name, Kind: kind, Values: []string{`(?s:.*)(?:` + pattern + `)(?s:.*)`}}
}

// What a regular expression may be resolved into.
const (
	textsMax     = 10_000
	textBytesMax = 4 << 20 // of all texts that are made on the way
	// A few characters such as [a-z][a-z][a-z] make many texts, and a query may have hundreds of
	// such expressions: nothing can stop it while it lists them.
	textBytesBase    = 32 << 10
	textBytesPerByte = 64 // of the expression
)

// TextsOf returns the texts that an anchored regular expression matches, where these are a list.
func TextsOf(pattern string) ([]string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || re.Op != syntax.OpConcat || len(re.Sub) < 2 ||
		re.Sub[0].Op != syntax.OpBeginText || re.Sub[len(re.Sub)-1].Op != syntax.OpEndText {
		return nil, false
	}
	r := resolver{bytesLeft: min(textBytesMax, textBytesBase+textBytesPerByte*len(pattern))}
	texts := []string{""}
	for _, part := range re.Sub[1 : len(re.Sub)-1] {
		if texts = r.continued(texts, part); texts == nil {
			return nil, false
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts), true
}

// resolver lists what parts of a regular expression match.
type resolver struct{ bytesLeft int }

// add appends each text, continued by a suffix; nil: that is no short list.
func (r *resolver) add(to, texts []string, suffix string) []string {
	for _, text := range texts {
		r.bytesLeft -= len(text) + len(suffix) + 16
		if len(to) == textsMax || r.bytesLeft < 0 {
			return nil
		}
		to = append(to, text+suffix)
	}
	return to
}

// continued continues each text with all that a part matches; nil: that is no short list.
func (r *resolver) continued(texts []string, part *syntax.Regexp) []string {
	if part.Flags&syntax.FoldCase != 0 {
		return nil
	}
	next := []string{}
	switch part.Op {
	case syntax.OpEmptyMatch:
		return texts
	case syntax.OpCapture:
		return r.continued(texts, part.Sub[0])
	case syntax.OpConcat:
		for _, sub := range part.Sub {
			if texts = r.continued(texts, sub); texts == nil {
				return nil
			}
		}
		return texts
	case syntax.OpLiteral:
		return r.add(next, texts, string(part.Rune))
	case syntax.OpCharClass:
		for i := 0; i < len(part.Rune) && next != nil; i += 2 {
			for c := part.Rune[i]; c <= part.Rune[i+1] && next != nil; c++ {
				next = r.add(next, texts, string(c))
			}
		}
		return next
	case syntax.OpAlternate:
		for _, sub := range part.Sub {
			more := r.continued(texts, sub)
			if more == nil {
				return nil
			}
			if next = r.add(next, more, ""); next == nil {
				return nil
			}
		}
		return next
	}
	return nil
}

// fieldMatcher restricts series to those of some fields. A series without the tag _field
// holds the field value, and so does one that names it.
func fieldMatcher(name string, fields []string) scan.Matcher {
	values := slices.Clone(fields)
	if slices.Contains(fields, ValueField) {
		values = append(values, "")
	}
	slices.SortFunc(values, strings.Compare)
	return scan.Matcher{Name: name, Kind: scan.MatchIn, Values: values}
}
