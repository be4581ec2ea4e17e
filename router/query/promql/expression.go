package promql

import "github.com/prometheus/prometheus/promql/parser"

// invalidQuery is how Prometheus answers an expression that it does not take.
func invalidQuery(err error) error { return invalidParameter(err, "query") }

// expression parses the parameter query, which a client sent; refuse makes the answer to one that
// is not taken.
func (h *handler) expression(x *exchange, refuse func(error) error) (parser.Expr, error) {
	return h.parseText(x, x.form.Get("query"), refuse)
}

// parse is expression of any text.
func (h *handler) parse(x *exchange, text string) (parser.Expr, error) {
	return h.parseText(x, text, invalidQuery)
}

func (h *handler) parseText(x *exchange, text string, refuse func(error) error) (parser.Expr, error) {
	m, err := measure(text)
	if err != nil {
		return nil, refuse(err)
	}
	if err := x.entry.Take(m.Bytes()); err != nil {
		return nil, err
	}
	expr, err := h.parser.ParseExpr(text)
	if err != nil {
		return nil, refuse(err)
	}
	taken := m.Bytes()
	if err := measureLabels(m, expr); err != nil {
		return nil, refuse(err)
	}
	if err := x.entry.Take(m.Bytes() - taken); err != nil {
		return nil, err
	}
	return expr, x.ctx.Err()
}
