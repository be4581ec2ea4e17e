package promql

import (
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"github.com/tickmesh/tickmesh/api/guard"
)

// Measure checks an expression that somebody else is to parse. Error: guard.ErrTooLarge.
func Measure(expr string) error {
	_, err := measure(expr)
	return err
}

// measure checks the expressions or selectors of one request before they are parsed. It reads
// them with the lexer of the parser, which stops where the parser does. Error: guard.ErrTooLarge.
func measure(texts ...string) (*guard.Meter, error) {
	bytes := 0
	for _, text := range texts {
		bytes += len(text) + 1
	}
	m, err := guard.NewMeter(bytes)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		if err := measureText(m, text); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func measureText(m *guard.Meter, text string) error {
	var item parser.Item
	lexer, braces := parser.Lex(text), false
	for before := parser.ItemType(0); ; before = item.Typ {
		lexer.NextItem(&item)
		for item.Typ == parser.COMMENT {
			lexer.NextItem(&item)
		}
		var err error
		switch item.Typ {
		case parser.EOF, parser.ERROR: // the parser goes no further either
			return nil
		case parser.LEFT_BRACKET: // a range, or a subquery of all that stands before it
			if err = m.Operator(); err == nil {
				err = m.Open()
			}
		case parser.LEFT_PAREN, parser.LEFT_BRACE:
			braces = item.Typ == parser.LEFT_BRACE
			err = m.Open()
		case parser.RIGHT_PAREN, parser.RIGHT_BRACE, parser.RIGHT_BRACKET:
			braces = false
			err = m.Close()
		case parser.STRING:
			if before == parser.EQL_REGEX || before == parser.NEQ_REGEX {
				err = measureRegexp(m, item.Val)
			}
			if err == nil {
				err = m.Token()
			}
		default:
			if item.Typ.IsOperator() && !braces {
				err = m.Operator()
			} else {
				err = m.Token()
			}
		}
		if err != nil {
			return err
		}
	}
}

// measureRegexp takes an expression as it is quoted in the text. What cannot be unquoted is
// left to the parser.
func measureRegexp(m *guard.Meter, quoted string) error {
	expression, err := strutil.Unquote(quoted)
	if err != nil {
		return nil //nolint:nilerr // the parser says so
	}
	return m.Regexp(expression)
}
