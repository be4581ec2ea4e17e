package rules

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tickmesh/tickmesh/api/backoff"
)

// Writer writes samples as clients' samples are written.
type Writer interface {
	// WriteRules writes a WriteRequest of remote write 1.0. The same twice does no harm.
	WriteRules(ctx context.Context, database string, request []byte) error
}

// Bounds of the write of one rule's samples.
const (
	requestBytesMax = 1 << 20 // of one request; a longer result is several
	writeRetryMax   = 20 * time.Second
)

// errHistogram refuses what storage has no form for.
var errHistogram = errors.New("native histograms are not stored")

// appendable makes the appenders of one database.
type appendable struct {
	database string
	writer   Writer
	final    func(error) bool // whether another try is in vain
	recent   recent
}

// Appender implements storage.Appendable.
func (a *appendable) Appender(ctx context.Context) storage.Appender {
	return &appender{appendable: a, ctx: ctx}
}

// appender gathers the samples of one rule as remote writes.
type appender struct {
	*appendable
	ctx      context.Context
	requests [][]byte // of the last one more may come
	series   []byte   // memory of one TimeSeries
	label    []byte   // of one Label
}

// Append implements storage.Appender. Bits of values are kept, staleness markers are some.
func (a *appender) Append(_ storage.SeriesRef, l labels.Labels, timeMs int64, v float64) (storage.SeriesRef, error) {
	if err := a.recent.see(l, timeMs, v); err != nil {
		return 0, err
	}
	a.series = a.series[:0]
	l.Range(func(l labels.Label) {
		a.label = protowire.AppendString(protowire.AppendTag(a.label[:0], 1, protowire.BytesType), l.Name)
		a.label = protowire.AppendString(protowire.AppendTag(a.label, 2, protowire.BytesType), l.Value)
		a.series = protowire.AppendBytes(protowire.AppendTag(a.series, 1, protowire.BytesType), a.label)
	})
	a.label = binary.LittleEndian.AppendUint64(protowire.AppendTag(a.label[:0], 1, protowire.Fixed64Type), math.Float64bits(v))
	a.label = protowire.AppendVarint(protowire.AppendTag(a.label, 2, protowire.VarintType), uint64(timeMs))
	a.series = protowire.AppendBytes(protowire.AppendTag(a.series, 2, protowire.BytesType), a.label)
	if n := len(a.requests); n == 0 || len(a.requests[n-1]) > requestBytesMax {
		a.requests = append(a.requests, nil)
	}
	last := &a.requests[len(a.requests)-1]
	*last = protowire.AppendBytes(protowire.AppendTag(*last, 1, protowire.BytesType), a.series)
	return 0, nil
}

// Commit writes what was appended. What does not go in now is tried again for a while, as a client would.
func (a *appender) Commit() error {
	var problems []error
	for _, request := range a.requests {
		if err := a.write(request); err != nil {
			problems = append(problems, err)
		}
	}
	a.requests = nil
	return errors.Join(problems...)
}

func (a *appender) write(request []byte) error {
	wait := backoff.Exponential{Min: 100 * time.Millisecond, Max: 2 * time.Second}
	giveUp := time.NewTimer(writeRetryMax)
	defer giveUp.Stop()
	for failures := 1; ; failures++ {
		err := a.writer.WriteRules(a.ctx, a.database, request)
		if err == nil || a.final(err) {
			return err
		}
		again := time.NewTimer(wait.Delay(failures))
		select {
		case <-again.C:
			continue
		case <-giveUp.C:
		case <-a.ctx.Done():
		}
		again.Stop()
		return fmt.Errorf("%w (tried %d times)", err, failures)
	}
}

// Rollback implements storage.Appender.
func (a *appender) Rollback() error {
	a.requests = nil
	return nil
}

// AppendHistogram implements storage.Appender.
func (a *appender) AppendHistogram(storage.SeriesRef, labels.Labels, int64, *histogram.Histogram, *histogram.FloatHistogram) (storage.SeriesRef, error) {
	return 0, errHistogram
}

// AppendHistogramSTZeroSample implements storage.Appender.
func (a *appender) AppendHistogramSTZeroSample(storage.SeriesRef, labels.Labels, int64, int64, *histogram.Histogram, *histogram.FloatHistogram) (storage.SeriesRef, error) {
	return 0, errHistogram
}

// AppendSTZeroSample implements storage.Appender: times of start are not stored.
func (a *appender) AppendSTZeroSample(storage.SeriesRef, labels.Labels, int64, int64) (storage.SeriesRef, error) {
	return 0, nil
}

// AppendExemplar implements storage.Appender: rules make none.
func (a *appender) AppendExemplar(storage.SeriesRef, labels.Labels, exemplar.Exemplar) (storage.SeriesRef, error) {
	return 0, nil
}

// UpdateMetadata implements storage.Appender: rules say nothing of metrics.
func (a *appender) UpdateMetadata(storage.SeriesRef, labels.Labels, metadata.Metadata) (storage.SeriesRef, error) {
	return 0, nil
}

// SetOptions implements storage.Appender: samples out of order are never taken.
func (a *appender) SetOptions(*storage.AppendOptions) {}
