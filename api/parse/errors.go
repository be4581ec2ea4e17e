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
	KindUnsupported             // understood, but not stored (native histograms, text)
	KindRefused                 // the storage refused the series
)

// LineError describes what is wrong with one line.
type LineError struct {
	Number int    // its place in the body, from 1: line, datapoint or series
	Points int    // points that were lost with it, at least 1
	Text   []byte // the line or its start; points into Body
	Detail string // what is wrong, in the protocol's own words
	Form   Form
	Kind   Kind
}

// Bounds of the line in a message.
const (
	ExcerptBytesMax    = 1 << 10 // of line protocol, as InfluxDB's clients show it
	excerptBytesMaxPut = 200     // OpenTSDB's clients expect a short line
)

// Error returns the message as the protocol words it.
func (e *LineError) Error() string { return string(e.AppendTo(nil)) }

// AppendTo appends the message as the protocol words it:
//
//	FormPut     put: illegal argument: … (line '<line>')   (or "invalid value", "Please throttle writes")
//	FormLine    unable to parse '<line>': …         (or "unable to store", of text)
//	FormJSON    the detail alone, the datapoint being beside it in the answer
//	FormLabels  series <number>: …
//	FormText    line <number>: … (line '<line>')
//	FormGraphite  point <number>: … (line '<line>')
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
		verb := "unable to parse '"
		if e.Kind == KindUnsupported {
			verb = "unable to store '"
		}
		dst = append(dst, verb...)
		dst = append(appendExcerpt(dst, e.Text, ExcerptBytesMax), "': "...)
	case FormLabels:
		dst = appendPlace(dst, "series ", e.Number)
	case FormText:
		dst = appendPlace(dst, "line ", e.Number)
	case FormGraphite:
		dst = appendPlace(dst, "point ", e.Number)
	}
	dst = append(dst, e.Detail...)
	if e.Form == FormPut || e.Form == FormText || e.Form == FormGraphite { // OpenTSDB does not name the line; nobody could find it
		dst = append(appendExcerpt(append(dst, " (line '"...), e.Text, excerptBytesMaxPut), "')"...)
	}
	return dst
}

func appendPlace(dst []byte, word string, number int) []byte {
	return append(strconv.AppendInt(append(dst, word...), int64(number), 10), ": "...)
}

func appendExcerpt(dst, text []byte, bytesMax int) []byte {
	if len(text) > bytesMax {
		return append(append(dst, text[:bytesMax]...), "…"...)
	}
	return append(dst, text...)
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
