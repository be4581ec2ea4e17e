package influxql

import (
	"math"

	ql "github.com/influxdata/influxql"
)

// kind is the type of a value.
type kind uint8

const (
	kindNull kind = iota
	kindFloat
	kindInteger // a whole number in a float64, exact up to 2^53
	kindString
	kindBoolean
)

// value is one value of a row. The zero value is null.
type value struct {
	kind   kind
	number float64 // of numbers; 1 is true
	text   string  // of strings
}

func floatValue(v float64) value   { return numberValue(v, kindFloat) }
func integerValue(v float64) value { return numberValue(v, kindInteger) }
func stringValue(s string) value   { return value{kind: kindString, text: s} }

func booleanValue(b bool) value {
	v := value{kind: kindBoolean}
	if b {
		v.number = 1
	}
	return v
}

// numberValue returns a number of some kind; NaN is null.
func numberValue(v float64, of kind) value {
	if v != v {
		return value{}
	}
	return value{kind: of, number: v}
}

func (v value) isNumber() bool { return v.kind == kindFloat || v.kind == kindInteger }
func (v value) isTrue() bool   { return v.kind == kindBoolean && v.number != 0 }

// cast returns the value as another kind of number, as InfluxDB casts what fill() puts in.
// A value that does not fit stays as it is.
func (v value) cast(to kind) value {
	if v.isNumber() && to == kindFloat {
		v.kind = kindFloat
	}
	if v.isNumber() && to == kindInteger {
		v.kind, v.number = kindInteger, math.Trunc(v.number)
	}
	return v
}

// kindOf returns the kind of values of a type.
func kindOf(t ql.DataType) kind {
	switch t {
	case ql.Float:
		return kindFloat
	case ql.Integer, ql.Unsigned:
		return kindInteger
	case ql.String, ql.Tag:
		return kindString
	case ql.Boolean:
		return kindBoolean
	}
	return kindNull
}
