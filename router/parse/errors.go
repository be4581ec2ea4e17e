package parse

import (
	"cmp"
	"slices"
	"strconv"
)

// Kind is the class of a line's error, for metrics and for the protocols that
// word them differently.
type Kind uint8

// The kinds.
const (
	KindSyntax      Kind = iota // the line is not of the protocol
	KindValue                   // a number or a time cannot be read
	KindLimit                   // longer or more than the limits allow
	KindUnsupported             // understood, but not stored (native histograms)
	KindRefused                 // the storage refused the series
)

// LineError says what is wrong with one line.
type LineError struct {
	Number int    // its place in the body, from 1: line, datapoint or series
	Points int    // points that were lost with it, at least 1
	Text   []byte // the line or its start; points into Body
	Detail string // what is wrong, in the protocol's own words
	Form   Form
	Kind   Kind
}

// ExcerptBytesMax bounds LineError.Text of the line protocol's messages.
const ExcerptBytesMax = 1 << 10

// Error gives the message as the protocol words it.
func (e *LineError) Error() string { return string(e.AppendTo(nil)) }

// AppendTo appends the message as the protocol words it:
//
//	FormPut     put: illegal argument: …   (or "invalid value", "Please throttle writes")
//	FormLine    unable to parse '<line>': …
//	FormJSON    the detail alone, the datapoint being beside it in the answer
//	FormLabels  series <number>: …
func (e *LineError) AppendTo(dst []byte) []byte {
	switch e.Form {
	case FormPut:
		switch e.Kind {
		case KindValue:
			dst = append(dst, "put: invalid value: "...)
		case KindRefused:
			dst = append(dst, "put: Please throttle writes: "...)
		default:
			dst = append(dst, "put: illegal argument: "...)
		}
	case FormLine:
		if e.Kind == KindRefused {
			break
		}
		dst = append(dst, "unable to parse '"...)
		if len(e.Text) > ExcerptBytesMax {
			dst = append(append(dst, e.Text[:ExcerptBytesMax]...), "…"...)
		} else {
			dst = append(dst, e.Text...)
		}
		dst = append(dst, "': "...)
	case FormLabels:
		dst = append(dst, "series "...)
		dst = strconv.AppendInt(dst, int64(e.Number), 10)
		dst = append(dst, ": "...)
	}
	return append(dst, e.Detail...)
}

// SortErrors puts the errors into the order of their lines: those of identities are
// found after those of numbers.
func (b *Batch) SortErrors() {
	slices.SortStableFunc(b.Errors, func(x, y LineError) int { return cmp.Compare(x.Number, y.Number) })
}

// AddError counts an error of a line and keeps it while there is room.
func (b *Batch) AddError(l *Line, points int, kind Kind, detail string, errorsMax int) {
	b.ErrorsTotal++
	b.ErrorPoints += points
	if len(b.Errors) >= errorsMax {
		return
	}
	b.Errors = append(b.Errors, LineError{
		Number: int(l.Number),
		Points: points,
		Text:   b.Body[l.Text.Start:l.Text.End],
		Detail: detail,
		Form:   l.Form,
		Kind:   kind,
	})
}
