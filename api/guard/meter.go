package guard

import (
	"errors"
	"fmt"
)

// Limits of the text of one query.
const (
	// TextBytesMax bounds the text. Variables of dashboards with thousands of values make
	// some tens of kilobytes.
	TextBytesMax = 256 << 10
	// DepthMax bounds how deep brackets of all kinds stand inside each other.
	DepthMax = 128
	// OperatorsMax bounds what makes a tree deeper without a bracket: a chain of operators is a
	// tree as deep as the chain is long, and engines look at the whole of it at each level.
	OperatorsMax = 1000
	// TokensMax bounds the words, numbers, texts, operators and brackets, of which lists of
	// labels and of matchers have many.
	TokensMax = 8 << 10
)

// ErrTooLarge is the kind of all errors of this package that concern a limit.
var ErrTooLarge = errors.New("the query is too large")

// Meter adds up what one query holds. Its zero value is ready for use where there is no text,
// only expressions. A Meter is for one goroutine.
type Meter struct {
	bytes, depth, operators, tokens int

	size int // of regular expressions
}

// NewMeter returns the Meter of a query whose texts have so many bytes together.
// Error: ErrTooLarge.
func NewMeter(bytes int) (*Meter, error) {
	if bytes > TextBytesMax {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d: shorten it, or ask in parts", ErrTooLarge, bytes, TextBytesMax)
	}
	return &Meter{bytes: bytes}, nil
}

// Token counts one word or literal.
func (m *Meter) Token() error {
	if m.tokens++; m.tokens > TokensMax {
		return fmt.Errorf("%w: it has more than %d words, literals and operators: ask in parts", ErrTooLarge, TokensMax)
	}
	return nil
}

// Operator counts what binds one or two expressions to another, without a bracket.
func (m *Meter) Operator() error {
	if m.operators++; m.operators > OperatorsMax {
		return fmt.Errorf("%w: it has more than %d operators: ask in parts", ErrTooLarge, OperatorsMax)
	}
	return m.Token()
}

// Open counts a bracket that opens.
func (m *Meter) Open() error {
	if m.depth++; m.depth > DepthMax {
		return fmt.Errorf("%w: its brackets are nested more than %d levels deep", ErrTooLarge, DepthMax)
	}
	return m.Token()
}

// Close counts a bracket that closes. One that closes nothing is left to the parser, which
// refuses it.
func (m *Meter) Close() error {
	m.depth = max(0, m.depth-1)
	return m.Token()
}

// Costs of what is made of a text, as measured by measure_test.go of router/query/promql.
const (
	tokenBytes = 512 // of the tree and what is made beside it
	stepBytes  = 160 // of a step of a regular expression: tree, simplified tree, program
)

// Bytes returns about how much memory the parsed query takes, for admission control.
func (m *Meter) Bytes() int64 {
	return int64(m.bytes) + tokenBytes*int64(m.tokens) + stepBytes*int64(m.size)
}
