package opentsdb

import "strings"

// graphCall is a call of a function of /api/query/gexp, function(argument, …). What is
// neither a call nor a sub-query is a parameter.
type graphCall struct {
	function   *graphFunction
	inputs     []graphInput
	parameters []string
}

// graphInput is a series argument: a call, or the sub-query of that number.
type graphInput struct {
	call *graphCall
	sub  int
}

const (
	graphTextBytesMax = 16 << 10
	graphDepthMax     = 32
)

// graphParser collects the sub-queries of expressions, each text once.
type graphParser struct {
	texts   []string
	subs    []subQuery
	subsMax int64
}

// call reads an expression. OpenTSDB's grammar (parser.jj) knows short names only; here a
// sub-query may be any that the parameter m takes.
func (p *graphParser) call(text string, depth int) (*graphCall, error) {
	if len(text) > graphTextBytesMax {
		return nil, invalid("An expression is longer than %d bytes", graphTextBytesMax)
	}
	if depth > graphDepthMax {
		return nil, invalid("An expression is nested deeper than %d levels", graphDepthMax)
	}
	name, arguments, ok := cutCall(text)
	if !ok {
		return nil, invalid("Failed to parse %s: it is no call of a function", text)
	}
	function, ok := graphFunctions[name]
	if !ok {
		return nil, invalid("Function %s has not been implemented", name)
	}
	parts, err := splitOutside(arguments, ',')
	if err != nil {
		return nil, invalid("Failed to parse %s: %v", text, err)
	}
	c := &graphCall{function: function}
	for _, part := range parts {
		part = strings.TrimSpace(part)
		_, _, isCall := cutCall(part)
		switch {
		case part == "":
			return nil, invalid("Failed to parse %s: Parameter cannot be null or empty", text)
		case isCall:
			inner, err := p.call(part, depth+1)
			if err != nil {
				return nil, err
			}
			c.inputs = append(c.inputs, graphInput{call: inner})
		case strings.Contains(part, ":"):
			at, err := p.sub(part)
			if err != nil {
				return nil, err
			}
			c.inputs = append(c.inputs, graphInput{sub: at})
		default:
			c.parameters = append(c.parameters, part)
		}
	}
	return c, c.check(name)
}

// cutCall splits name(arguments).
func cutCall(text string) (name, arguments string, ok bool) {
	text = strings.TrimSpace(text)
	open := strings.IndexByte(text, '(')
	if open < 0 || text[len(text)-1] != ')' {
		return "", "", false
	}
	name = strings.TrimSpace(text[:open])
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "", "", false
		}
	}
	return name, text[open+1 : len(text)-1], name != ""
}

// sub gives the number of a sub-query.
func (p *graphParser) sub(text string) (int, error) {
	for i, known := range p.texts {
		if known == text {
			return i, nil
		}
	}
	if p.subsMax > 0 && int64(len(p.texts)) == p.subsMax {
		return 0, invalid("The expressions have more than %d sub queries", p.subsMax)
	}
	sub, err := parseExpression(text, false)
	if err != nil {
		return 0, err
	}
	p.texts, p.subs = append(p.texts, text), append(p.subs, sub)
	return len(p.texts) - 1, nil
}

// check says whether a function has what it needs.
func (c *graphCall) check(name string) error {
	f := c.function
	switch {
	case f.join != "" && (len(c.inputs) < joinedMin || len(c.inputs) > joinedMax):
		return invalid("Must have %d to %d series, got %d instead", joinedMin, joinedMax, len(c.inputs))
	case len(c.inputs) == 0:
		return invalid("The function %s needs a sub query or another function: aggregator:metric", name)
	case f.needs != "" && len(c.parameters) == 0:
		return invalid("Missing %s of %s", f.needs, name)
	}
	if f.prepare == nil {
		return nil
	}
	_, err := f.prepare(c.parameters)
	return err
}
