package opentsdb

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/api/scan"
)

// filter is one filter on the value of a tag (net.opentsdb.query.filter).
type filter struct {
	kind    string // one of filterKinds
	tag     string
	text    string
	groupBy bool
	fold    bool // kind wildcard that ignores case, as the short form k=web* does
}

// filterKind describes a kind of filter to people, as /api/config/filters does.
type filterKind struct{ name, description, examples string }

// filterKinds lists the kinds by name.
//
//nolint:gochecknoglobals // a constant table
var filterKinds = []filterKind{
	{"iliteral_or", "Matches any of the values, which are separated by | (pipe), ignoring case.",
		`host=iliteral_or(web01), host=iliteral_or(web01|web02) {"type":"iliteral_or","tagk":"host","filter":"web01|web02","groupBy":false}`},
	{"iwildcard", "Matches a pattern in which * stands for any characters, ignoring case.",
		`host=iwildcard(web*), host=iwildcard(web*.example) {"type":"iwildcard","tagk":"host","filter":"web*.example","groupBy":false}`},
	{"literal_or", "Matches any of the values, which are separated by | (pipe).",
		`host=literal_or(web01), host=literal_or(web01|web02) {"type":"literal_or","tagk":"host","filter":"web01|web02","groupBy":false}`},
	{"not_iliteral_or", "Matches series that have the tag with none of the values, ignoring case.",
		`host=not_iliteral_or(web01|web02) {"type":"not_iliteral_or","tagk":"host","filter":"web01|web02","groupBy":false}`},
	{"not_key", "Matches series that do not have the tag. The filter's text must be empty.",
		`host=not_key() {"type":"not_key","tagk":"host","filter":"","groupBy":false}`},
	{"not_literal_or", "Matches series that have the tag with none of the values.",
		`host=not_literal_or(web01|web02) {"type":"not_literal_or","tagk":"host","filter":"web01|web02","groupBy":false}`},
	{"regexp", "Matches values in which the regular expression (RE2) is found anywhere.",
		`host=regexp(web[0-9]+) {"type":"regexp","tagk":"host","filter":"web[0-9]+","groupBy":false}`},
	{"wildcard", "Matches a pattern in which * stands for any characters; * alone matches any value.",
		`host=wildcard(web*), host=wildcard(web*.example) {"type":"wildcard","tagk":"host","filter":"web*.example","groupBy":false}`},
}

// parseTagFilter reads the short form of a filter, the value of a tag: kind(text),
// *, a pattern with *, or values separated by |.
func parseTagFilter(tag, value string, groupBy bool) (filter, error) {
	f := filter{tag: tag, text: value, groupBy: groupBy}
	kind, rest, called := strings.Cut(value, "(")
	switch {
	case tag == "":
		return f, invalid("Tagk cannot be null or empty")
	case value == "":
		return f, invalid("Filter cannot be null or empty")
	case called:
		text, closed := strings.CutSuffix(rest, ")")
		if !closed {
			return f, invalid("Filter must end with a ')': %s", value)
		}
		f.kind, f.text = strings.ToLower(kind), text
	case strings.Contains(value, "*"):
		f.kind, f.fold = "wildcard", strings.Trim(value, "*") != ""
	default:
		f.kind = "literal_or"
	}
	return f, nil
}

// filterValuesMax bounds the values that one filter lists.
const filterValuesMax = 64 << 10

// matchers returns what a scan has to match for the filter to accept a series.
// Every kind but not_key needs the tag to be there, as OpenTSDB's row key
// expression does. Errors are about the filter's text; m measures all filters of the request.
func (f *filter) matchers(m *guard.Meter) ([]scan.Matcher, error) {
	if f.tag == "" {
		return nil, invalid("Filter must have a tagk")
	}
	present := scan.Matcher{Name: f.tag, Kind: scan.MatchPresent}
	switch f.kind {
	case "literal_or", "iliteral_or", "not_literal_or", "not_iliteral_or":
		if n := strings.Count(f.text, "|"); n > filterValuesMax {
			return nil, invalid("%v: the filter %s on '%s' has more than %d values: ask in parts", guard.ErrTooLarge, f.kind, f.tag, filterValuesMax)
		}
		values := slices.DeleteFunc(strings.Split(f.text, "|"), func(v string) bool { return v == "" })
		if len(values) == 0 {
			return nil, invalid("The filter %s on '%s' must contain at least one value", f.kind, f.tag)
		}
		m := scan.Matcher{Name: f.tag, Values: values, Kind: map[string]scan.MatchKind{
			"literal_or": scan.MatchIn, "iliteral_or": scan.MatchEqualFold,
			"not_literal_or": scan.MatchNotIn, "not_iliteral_or": scan.MatchNotEqualFold}[f.kind]}
		if strings.HasPrefix(f.kind, "not_") {
			return []scan.Matcher{m, present}, nil
		}
		if m.Kind == scan.MatchIn && len(values) == 1 {
			m.Kind = scan.MatchEqual
		}
		return []scan.Matcher{m}, nil
	case "wildcard", "iwildcard":
		if !strings.Contains(f.text, "*") {
			return nil, invalid("Filter must contain an asterisk: %s", f.text)
		}
		if strings.Trim(f.text, "*") == "" {
			return []scan.Matcher{present}, nil
		}
		expression := wildcardExpression(f.text, f.fold || f.kind == "iwildcard")
		if err := checkExpression(m, f.text, expression); err != nil {
			return nil, err
		}
		return []scan.Matcher{{Name: f.tag, Kind: scan.MatchRegexp, Values: []string{expression}}, present}, nil
	case "regexp":
		expression, err := anywhereExpression(m, f.text)
		if err != nil {
			return nil, err
		}
		return []scan.Matcher{{Name: f.tag, Kind: scan.MatchRegexp, Values: []string{expression}}, present}, nil
	case "not_key":
		if f.text != "" {
			return nil, invalid("The filter must be empty for the not_key filter")
		}
		return []scan.Matcher{{Name: f.tag, Kind: scan.MatchAbsent}}, nil
	case "":
		return nil, invalid("The filter type cannot be null or empty")
	}
	return nil, invalid("Could not find a tag value filter of the type: %s", f.kind)
}

// wildcardExpression turns a pattern with * into an anchored expression.
func wildcardExpression(pattern string, fold bool) string {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	flags := "(?s)"
	if fold {
		flags = "(?si)"
	}
	return flags + strings.Join(parts, ".*")
}

// anywhereExpression turns an expression that may be found anywhere in a value
// into one for the whole value.
func anywhereExpression(m *guard.Meter, text string) (string, error) {
	if text == "" {
		return "", invalid("Filter cannot be null or empty")
	}
	if err := checkExpression(m, text, text); err != nil {
		return "", err
	}
	before, after := "(?s:.*)", "(?s:.*)"
	if parsed, err := syntax.Parse(text, syntax.Perl); err == nil && parsed.Op == syntax.OpConcat {
		if parsed.Sub[0].Op == syntax.OpBeginText {
			before = ""
		}
		if parsed.Sub[len(parsed.Sub)-1].Op == syntax.OpEndText {
			after = ""
		}
	}
	expression := before + "(?:" + text + ")" + after
	return expression, compiles(text, expression)
}

// checkExpression refuses what is too large to be compiled, or cannot be.
func checkExpression(m *guard.Meter, text, expression string) error {
	if err := m.Regexp(expression); err != nil {
		return invalid("Invalid filter: %v", err)
	}
	return compiles(text, expression)
}

// compiles refuses what a source could not compile, such as text that is not UTF-8.
func compiles(text, expression string) error {
	if _, err := regexp.Compile(expression); err != nil {
		return invalid("Invalid regular expression '%s': %v", text, err)
	}
	return nil
}

// compareFilters returns a fixed order to filters that came as a JSON object.
func compareFilters(a, b filter) int {
	return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.kind, b.kind), cmp.Compare(a.text, b.text))
}
