package opentsdb

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// formula is an expression of /api/query/exp over variables: what OpenTSDB documents of
// the language JEXL 2, which are arithmetic, comparisons, logic and conditions. Numbers
// are doubles as there; a division of two whole literals is one of whole numbers.
type formula struct {
	root      *node
	variables []string // in the order of their names
	registers int      // that an evaluation needs
}

// node is one operation of a formula.
type node struct {
	op          operation
	kind        kind
	value       float64 // of a number
	variable    int     // index in formula.variables
	left, right *node
	otherwise   *node // of a condition
}

type operation uint8

const (
	opNumber operation = iota
	opVariable
	opNegate
	opNot
	opAdd
	opSubtract
	opMultiply
	opDivide
	opModulo
	opEqual
	opNotEqual
	opLess
	opLessOrEqual
	opGreater
	opGreaterOrEqual
	opAnd
	opOr
	opElse // a ?: b
	opCondition
)

// kind is what is known of a node's value before it is computed.
type kind uint8

const (
	kindDouble kind = iota
	kindWhole
	kindTruth
)

const (
	formulaBytesMax = 16 << 10
	formulaDepthMax = 100
)

// operators by their symbols and words, and how tightly they bind.
//
//nolint:gochecknoglobals // a constant table
var operators = map[string]struct {
	op       operation
	strength int
}{
	"||": {opOr, 1}, "or": {opOr, 1},
	"&&": {opAnd, 2}, "and": {opAnd, 2},
	"==": {opEqual, 3}, "eq": {opEqual, 3}, "!=": {opNotEqual, 3}, "ne": {opNotEqual, 3},
	"<": {opLess, 4}, "lt": {opLess, 4}, "<=": {opLessOrEqual, 4}, "le": {opLessOrEqual, 4},
	">": {opGreater, 4}, "gt": {opGreater, 4}, ">=": {opGreaterOrEqual, 4}, "ge": {opGreaterOrEqual, 4},
	"+": {opAdd, 5}, "-": {opSubtract, 5},
	"*": {opMultiply, 6}, "/": {opDivide, 6}, "div": {opDivide, 6}, "%": {opModulo, 6}, "mod": {opModulo, 6},
}

// strengthChained is the strength from which on operators can follow each other: as in
// JEXL, comparisons need parentheses.
const (
	strengthEqual   = 3
	strengthChained = 5
)

// parseFormula reads an expression. Errors say where it cannot be understood.
func parseFormula(text string) (*formula, error) {
	if len(text) > formulaBytesMax {
		return nil, invalid("An expression is longer than %d bytes", formulaBytesMax)
	}
	p := &formulaParser{text: text, names: map[string][]*node{}}
	p.next()
	root, err := p.condition()
	if err == nil && p.token != "" {
		err = p.unexpected()
	}
	if err != nil {
		return nil, err
	}
	f := &formula{root: root, registers: root.registers()}
	for name := range p.names {
		f.variables = append(f.variables, name)
	}
	slices.Sort(f.variables)
	for i, name := range f.variables {
		for _, n := range p.names[name] {
			n.variable = i
		}
	}
	if len(f.variables) == 0 {
		return nil, invalid("The expression didn't appear to have any variables: %s", text)
	}
	return f, nil
}

// formulaParser reads tokens by recursive descent.
type formulaParser struct {
	text  string
	at    int    // after the token
	token string // empty at the end
	depth int
	names map[string][]*node
}

func (p *formulaParser) unexpected() error {
	if p.token == "" {
		return invalid("Unable to parse the expression '%s': it ends too early", p.text)
	}
	return invalid("Unable to parse the expression '%s' at '%s': only numbers, variables, parentheses, arithmetic, "+
		"comparisons, logic and ?: are understood", p.text, p.text[p.at-len(p.token):])
}

// next reads the next token.
func (p *formulaParser) next() {
	rest := strings.TrimLeft(p.text[p.at:], " \t\r\n")
	p.at = len(p.text) - len(rest)
	size := min(1, len(rest))
	first, runeSize := utf8.DecodeRuneInString(rest)
	switch {
	case rest == "":
	case first >= '0' && first <= '9' || first == '.':
		size = numberSize(rest)
	case isNameRune(first):
		size = runeSize
		for size < len(rest) {
			r, n := utf8.DecodeRuneInString(rest[size:])
			if !isNameRune(r) {
				break
			}
			size += n
		}
	default:
		for _, symbol := range []string{"||", "&&", "==", "!=", "<=", ">=", "?:"} {
			if strings.HasPrefix(rest, symbol) {
				size = len(symbol)
			}
		}
	}
	p.token = rest[:size]
	p.at += size
}

func isNameRune(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// numberSize gives the length of the number that a text begins with, with its suffix.
func numberSize(text string) int {
	size := 0
	for size < len(text) {
		c := text[size]
		exponent := size > 0 && (text[size-1] == 'e' || text[size-1] == 'E') && (c == '+' || c == '-')
		if !exponent && c != '.' && !isNameRune(rune(c)) {
			break
		}
		size++
	}
	return size
}

// enter bounds how deep things are inside of each other.
func (p *formulaParser) enter() error {
	if p.depth++; p.depth > formulaDepthMax {
		return invalid("An expression is nested deeper than %d levels", formulaDepthMax)
	}
	return nil
}

// condition reads a ? b : c, a ?: b, or what binds tighter.
func (p *formulaParser) condition() (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	test, err := p.binary(1)
	if err != nil {
		return nil, err
	}
	switch p.token {
	case "?:":
		p.next()
		otherwise, err := p.condition()
		if err != nil {
			return nil, err
		}
		return &node{op: opElse, left: test, right: otherwise, kind: joinKinds(test, otherwise)}, nil
	case "?":
		p.next()
		then, err := p.condition()
		if err != nil {
			return nil, err
		}
		if p.token != ":" {
			return nil, p.unexpected()
		}
		p.next()
		otherwise, err := p.condition()
		if err != nil {
			return nil, err
		}
		return &node{op: opCondition, left: test, right: then, otherwise: otherwise, kind: joinKinds(then, otherwise)}, nil
	}
	return test, nil
}

// joinKinds gives what is known of a value that is that of one of two nodes.
func joinKinds(a, b *node) kind {
	if a.kind == b.kind {
		return a.kind
	}
	return kindDouble
}

// binary reads operators that bind at least as tightly as strength.
func (p *formulaParser) binary(strength int) (*node, error) {
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
	for {
		o, ok := operators[p.token]
		if !ok || o.strength < strength {
			return left, nil
		}
		p.next()
		right, err := p.binary(o.strength + 1)
		if err != nil {
			return nil, err
		}
		left = &node{op: o.op, left: left, right: right, kind: kindOf(o.op, left.kind, right.kind)}
		if o.strength >= strengthEqual && o.strength < strengthChained && operators[p.token].strength == o.strength {
			return nil, p.unexpected()
		}
	}
}

func kindOf(op operation, left, right kind) kind {
	switch {
	case op >= opEqual:
		return kindTruth
	case left != kindDouble && right != kindDouble:
		return kindWhole
	}
	return kindDouble
}

func (p *formulaParser) unary() (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	switch p.token {
	case "-":
		p.next()
		of, err := p.unary()
		if err != nil {
			return nil, err
		}
		return &node{op: opNegate, left: of, kind: kindOf(opNegate, of.kind, of.kind)}, nil
	case "!", "not":
		p.next()
		of, err := p.unary()
		if err != nil {
			return nil, err
		}
		return &node{op: opNot, left: of, kind: kindTruth}, nil
	}
	return p.operand()
}

func (p *formulaParser) operand() (*node, error) {
	token := p.token
	first, _ := utf8.DecodeRuneInString(token)
	switch {
	case token == "(":
		p.next()
		inner, err := p.condition()
		if err != nil {
			return nil, err
		}
		if p.token != ")" {
			return nil, p.unexpected()
		}
		p.next()
		return inner, nil
	case token == "true" || token == "false":
		n := &node{op: opNumber, kind: kindTruth}
		if token == "true" {
			n.value = 1
		}
		p.next()
		return n, nil
	case token != "" && (first >= '0' && first <= '9' || first == '.'):
		n, err := parseNumber(token)
		if err != nil {
			return nil, err
		}
		p.next()
		return n, nil
	case token == "" || !isNameRune(first) || isReserved(token):
		return nil, p.unexpected()
	}
	n := &node{op: opVariable}
	p.names[token] = append(p.names[token], n)
	p.next()
	return n, nil
}

// isReserved says whether JEXL gives a word a meaning that is not understood here, or one
// that is no variable.
func isReserved(word string) bool {
	_, operator := operators[word]
	return operator || slices.Contains([]string{"not", "null", "empty", "size", "new", "var", "return", "if", "else", "for", "foreach", "while"}, word)
}

// parseNumber reads a literal, of which the suffixes l and h say that it is whole, and
// f, d and b that it is not.
func parseNumber(text string) (*node, error) {
	n := &node{op: opNumber}
	digits := strings.TrimRight(text, "lLhH")
	if whole, err := strconv.ParseInt(digits, 10, 64); err == nil && len(digits) >= len(text)-1 && (digits[0] != '0' || digits == "0") {
		n.kind, n.value = kindWhole, float64(whole)
		return n, nil
	}
	digits = strings.TrimRight(text, "fFdDbB")
	v, err := strconv.ParseFloat(digits, 64)
	leadingZero := len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' // octal to some
	if err != nil || len(digits) < len(text)-1 || leadingZero || strings.ContainsAny(digits, "_xXpP") {
		return nil, invalid("Unable to parse a number of an expression: '%s'", text)
	}
	n.value = v
	return n, nil
}
