package influxql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	ql "github.com/influxdata/influxql"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// Writer writes what SELECT INTO has selected, as clients' points are written.
type Writer interface {
	// WriteSelected writes a WriteRequest of remote write 1.0. The same twice does no harm.
	WriteSelected(ctx context.Context, database string, request []byte) error
}

var errNoWriter = errors.New("SELECT INTO is not offered here")

// intoBytesMax is how much is gathered of what SELECT INTO writes before it is written.
const intoBytesMax = 1 << 20

// selectInto runs a SELECT and writes its rows, and answers with how many these were.
func (x *execution) selectInto(s *ql.SelectStatement, out answer.Sink) error {
	written, err := x.insert(s)
	if err != nil {
		return err
	}
	if err := out.Series(&answer.Head{Name: "result", Columns: []string{"time", "written"}, Timed: true}); err != nil {
		return err
	}
	return out.Row(0, []answer.Value{answer.Integer(float64(written))})
}

// insert runs a SELECT, writes its rows, and returns how many these were.
func (x *execution) insert(s *ql.SelectStatement) (written int64, err error) {
	if x.writer == nil {
		return 0, errNoWriter
	}
	if err := x.Entry.Take(2 * intoBytesMax); err != nil {
		return 0, err
	}
	defer x.Entry.Give(2 * intoBytesMax)
	target := s.Target.Measurement
	into := &insertion{execution: x, database: x.on(target.Database), measurement: target.Name, named: namedByTop(s)}
	err = x.selectRows(withoutTarget(s), into)
	if err == nil {
		err = into.write()
	}
	if err != nil {
		return into.written, fmt.Errorf("%w (%d rows were written before)", err, into.written)
	}
	return into.written, nil
}

// withoutTarget returns a SELECT that only reads. As in InfluxDB, windows that would be filled with null have no row when rows are
// written: count() would have a 0 there.
func withoutTarget(s *ql.SelectStatement) *ql.SelectStatement {
	plain := s.Clone()
	plain.Target = nil
	if interval, err := plain.GroupByInterval(); err == nil && interval > 0 && plain.Fill == ql.NullFill {
		plain.Fill = ql.NoFill
	}
	return plain
}

// namedByTop returns the columns that are there because top() or bottom() names them.
func namedByTop(s *ql.SelectStatement) []string {
	var all []string
	for _, f := range s.Fields {
		call, ok := f.Expr.(*ql.Call)
		if !ok || !isTopBottom(call) || len(call.Args) < 2 {
			continue
		}
		for _, argument := range call.Args[1 : len(call.Args)-1] {
			if ref, ok := argument.(*ql.VarRef); ok {
				all = append(all, ref.Val)
			}
		}
	}
	return all
}

// insertion takes the rows of a SELECT as points: tags that are grouped by, or named by top() and bottom(), stay tags,
// other columns become fields.
type insertion struct {
	*execution
	database    string
	measurement string   // empty: that of the rows
	named       []string // columns that are tags where they hold text

	fields  []field // of the open series
	rows    int64   // that are gathered
	written int64
	bytes   int    // that are gathered
	request []byte // of series that are closed
	message []byte // memory of one message
	tags    []byte // memory of setTags
}

// field is a column of the open series.
type field struct {
	name    string
	named   bool   // by top() or bottom()
	grouped bool   // the rows are grouped by it, too
	labels  []byte // encoded: those of all rows, and of the rows that samples are of
	common  int    // bytes of labels of all rows
	samples []byte // encoded
}

// Series implements answer.Sink.
func (i *insertion) Series(h *answer.Head) error {
	i.close()
	name := i.measurement
	if name == "" {
		name = h.Name
	}
	columns := h.Columns
	if h.Timed {
		columns = columns[1:]
	}
	i.fields = make([]field, len(columns))
	for n, column := range columns {
		f := field{name: column, named: slices.Contains(i.named, column)}
		f.labels = i.appendLabel(f.labels, "__name__", name)
		for _, tag := range h.Tags {
			f.grouped = f.grouped || tag.Key == column
			if tag.Value != "" {
				f.labels = i.appendLabel(f.labels, tag.Key, tag.Value)
			}
		}
		if column != load.ValueField {
			f.labels = i.appendLabel(f.labels, series.FieldTagName, column)
		}
		f.common = len(f.labels)
		i.fields[n] = f
	}
	return nil
}

// setTags sets the texts of columns that top() and bottom() name as tags of the series of a row.
func (i *insertion) setTags(values []answer.Value) {
	i.close()
	i.tags = i.tags[:0]
	for n, v := range values {
		if f := &i.fields[n]; f.named && !f.grouped && v.Kind == answer.KindString && v.Text != "" {
			i.tags = i.appendLabel(i.tags, f.name, v.Text)
		}
	}
	for n := range i.fields {
		f := &i.fields[n]
		f.labels = append(f.labels[:f.common], i.tags...)
	}
}

// Row implements answer.Sink.
func (i *insertion) Row(timeNs int64, values []answer.Value) error {
	if len(i.named) > 0 {
		i.setTags(values)
	}
	present := false
	for n, v := range values {
		switch {
		case v.Kind == answer.KindNull, i.fields[n].named && v.Kind == answer.KindString:
			continue
		case !v.IsNumber():
			return fmt.Errorf("field %q would be a text, and only numbers are stored: leave it out, or group by it if it is a tag (GROUP BY * does so)", i.fields[n].name)
		}
		f := &i.fields[n]
		i.message = binary.LittleEndian.AppendUint64(protowire.AppendTag(i.message[:0], 1, protowire.Fixed64Type), math.Float64bits(v.Number))
		i.message = protowire.AppendVarint(protowire.AppendTag(i.message, 2, protowire.VarintType), uint64(time.Unix(0, timeNs).UnixMilli()))
		f.samples = protowire.AppendBytes(protowire.AppendTag(f.samples, 2, protowire.BytesType), i.message)
		i.bytes += len(i.message)
		present = true
	}
	if !present {
		return nil
	}
	if i.rows++; i.bytes < intoBytesMax {
		return nil
	}
	return i.write()
}

// appendLabel appends a label of a series.
func (i *insertion) appendLabel(dst []byte, name, value string) []byte {
	i.message = protowire.AppendString(protowire.AppendTag(i.message[:0], 1, protowire.BytesType), name)
	i.message = protowire.AppendString(protowire.AppendTag(i.message, 2, protowire.BytesType), value)
	return protowire.AppendBytes(protowire.AppendTag(dst, 1, protowire.BytesType), i.message)
}

// close moves what was gathered of the open series into the request.
func (i *insertion) close() {
	for n := range i.fields {
		f := &i.fields[n]
		if len(f.samples) == 0 {
			continue
		}
		i.request = protowire.AppendVarint(protowire.AppendTag(i.request, 1, protowire.BytesType), uint64(len(f.labels)+len(f.samples)))
		i.request = append(append(i.request, f.labels...), f.samples...)
		i.bytes += len(f.labels)
		f.samples = f.samples[:0]
	}
}

// write writes what was gathered.
func (i *insertion) write() error {
	if i.close(); len(i.request) == 0 {
		return nil
	}
	if err := i.writer.WriteSelected(i.Ctx, i.database, i.request); err != nil {
		return err
	}
	i.written += i.rows
	i.rows, i.bytes, i.request = 0, 0, i.request[:0]
	return nil
}
