package answer

import (
	"math"

	ql "github.com/influxdata/influxql"
)

// Kind is the type of a value.
type Kind uint8

// The kinds of values.
const (
	KindNull Kind = iota
	KindFloat
	KindInteger // a whole number in a float64, exact up to 2^53
	KindString
	KindBoolean
)

// Value is one value of a row. The zero value is null.
type Value struct {
	Kind   Kind
	Number float64 // of numbers; 1 is true
	Text   string  // of strings
}

// Float returns a number; NaN is null.
func Float(v float64) Value { return Number(v, KindFloat) }

// Integer returns a whole number; NaN is null.
func Integer(v float64) Value { return Number(v, KindInteger) }

// String returns a text.
func String(s string) Value { return Value{Kind: KindString, Text: s} }

// Boolean returns true or false.
func Boolean(b bool) Value {
	v := Value{Kind: KindBoolean}
	if b {
		v.Number = 1
	}
	return v
}

// Number returns a number of some kind; NaN is null.
func Number(v float64, of Kind) Value {
	if v != v {
		return Value{}
	}
	return Value{Kind: of, Number: v}
}

// IsNumber reports whether the value is a number of either kind.
func (v Value) IsNumber() bool { return v.Kind == KindFloat || v.Kind == KindInteger }

// IsTrue reports whether the value is the boolean true.
func (v Value) IsTrue() bool { return v.Kind == KindBoolean && v.Number != 0 }

// Cast returns the value as another kind of number, as InfluxDB casts what fill() puts in.
// A value that does not fit stays as it is.
func (v Value) Cast(to Kind) Value {
	if v.IsNumber() && to == KindFloat {
		v.Kind = KindFloat
	}
	if v.IsNumber() && to == KindInteger {
		v.Kind, v.Number = KindInteger, math.Trunc(v.Number)
	}
	return v
}

// KindOf returns the kind of values of a type.
func KindOf(t ql.DataType) Kind {
	switch t {
	case ql.Float:
		return KindFloat
	case ql.Integer, ql.Unsigned:
		return KindInteger
	case ql.String, ql.Tag:
		return KindString
	case ql.Boolean:
		return KindBoolean
	}
	return KindNull
}
