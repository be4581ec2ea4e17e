package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/client"
)

// Run is samples of one series in the order of their times. It is valid during the call that it is given to.
type Run struct {
	Series  *client.Series
	TimesMs []int64
	Values  []float64
}

// Visitor is given the runs of a step. All runs of a series come one after the other.
type Visitor func(Run) error

// LeftOut counts what a source has and the cluster cannot store.
type LeftOut struct {
	Histograms int64 `json:"histograms,omitempty"` // native ones
	Texts      int64 `json:"texts,omitempty"`      // values that are no numbers
	Series     int64 `json:"series,omitempty"`     // runs of series whose names cannot be stored
	Repeated   int64 `json:"repeated,omitempty"`   // samples with the millisecond of the one behind them
}

func (l *LeftOut) add(of LeftOut) {
	l.Histograms += of.Histograms
	l.Texts += of.Texts
	l.Series += of.Series
	l.Repeated += of.Repeated
}

// Source is another database. All times are in milliseconds and inclusive. Errors that another try may cure are
// marked by errTemporary, those of a range that is too long for the source by errTooMuch.
type Source interface {
	// Names returns the sorted names of all that may have samples in the range.
	Names(ctx context.Context, fromMs, toMs int64) ([]string, error)
	// Metric returns the metric that the samples of a name have in the cluster.
	Metric(name string) string
	// Begins reports whether there are samples before a time; ok is false where the source cannot tell.
	Begins(ctx context.Context, beforeMs int64) (begins, ok bool, err error)
	// Read visits the samples of a name in the range.
	Read(ctx context.Context, name string, fromMs, toMs int64, visit Visitor) (LeftOut, error)
}

// Marks of errors of sources.
var (
	errTemporary = errors.New("the source may answer another time")
	errTooMuch   = errors.New("too much for one request")
)

// marked is an error that is of a kind.
type marked struct {
	kind error
	err  error
}

func (e *marked) Error() string        { return e.err.Error() }
func (e *marked) Unwrap() error        { return e.err }
func (e *marked) Is(target error) bool { return target == e.kind }

func temporary(err error) error { return &marked{errTemporary, err} }

// malformed words an answer that is not as it is documented.
func malformed(format string, args ...any) error {
	return fmt.Errorf("the source's answer cannot be read: "+format, args...)
}

// once leaves out samples that share a millisecond with the one behind them in their series: the last one counts, as
// it does for the cluster.
type once struct {
	visit    Visitor
	repeated int64

	series *client.Series // of the sample that is held back; nil: none is
	timeMs int64
	value  float64

	times  []int64
	values []float64
}

// Visit is a Visitor.
func (o *once) Visit(r Run) error {
	if o.series != nil && string(o.series.Key()) != string(r.Series.Key()) {
		if err := o.End(); err != nil {
			return err
		}
	}
	o.times, o.values = o.times[:0], o.values[:0]
	for i, ms := range r.TimesMs {
		switch {
		case o.series == nil:
		case o.timeMs == ms:
			o.repeated++
		default:
			o.times, o.values = append(o.times, o.timeMs), append(o.values, o.value)
		}
		if o.series == nil {
			o.series = r.Series
		}
		o.timeMs, o.value = ms, r.Values[i]
	}
	if len(o.times) == 0 {
		return nil
	}
	return o.visit(Run{o.series, o.times, o.values})
}

// End visits the sample that is held back.
func (o *once) End() error {
	if o.series == nil {
		return nil
	}
	last := Run{o.series, []int64{o.timeMs}, []float64{o.value}}
	o.series = nil
	return o.visit(last)
}
