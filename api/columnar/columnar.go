// Package columnar writes samples as Parquet files, a row group after the other, so that a file of any length takes
// bounded memory. Parquet itself is written by github.com/parquet-go/parquet-go: Apache's own library for Go brings
// Arrow, gRPC and Thrift with it, of which nothing is needed here.
//
// A row is a sample:
//
//	metric  string
//	tags    map of strings
//	time    timestamp of milliseconds, UTC
//	value   double, with all its bits
//
// and, for tags that are asked for by name, a column of optional strings each, beside the map.
package columnar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/tickmesh/tickmesh/api/series"
)

// ContentType is Parquet's media type.
const ContentType = "application/vnd.apache.parquet"

// Bounds of a row group. Readers work on row groups at once: DuckDB's own have as many rows.
const (
	rowGroupRowsMax  = 122_880
	rowGroupBytesMax = 8 << 20 // of rows without any compression
	dictionaryBytes  = 256 << 10
	pageBytes        = 64 << 10
	batchRows        = 128
)

// Bounds of columns.
const (
	ColumnsMax         = 64
	columnNameBytesMax = 1 << 10
)

// HeldBytes returns what a Writer of some columns holds at most, without its directory of row groups.
func HeldBytes(columns int) int64 {
	leaves := int64(len(names)+1) + int64(columns)
	return 2*rowGroupBytesMax + leaves*(dictionaryBytes+pageBytes)
}

// What the directory holds, about, until the end of the file.
const (
	directoryBytes     = 1 << 10 // of each column of a row group, beside its least and greatest text
	directoryPageBytes = 128     // of a page
	directoryTextBytes = 16      // of the least, and of the greatest, text of a page
)

// The names of columns that each file has.
const (
	columnMetric = "metric"
	columnTags   = "tags"
	columnTime   = "time"
	columnValue  = "value"
)

//nolint:gochecknoglobals // a constant
var names = []string{columnMetric, columnTags, columnTime, columnValue}

// ErrColumns marks columns that a file cannot have.
var ErrColumns = errors.New("cannot be columns")

// Options are how a file is written.
type Options struct {
	// Columns are the tags that have a column of their own.
	Columns []string
	// Take is asked for the memory of the file's directory, which grows with each row group; nil: nobody is.
	Take func(bytes int64) error
}

// check returns an ErrColumns unless there can be such columns.
func (o *Options) check() error {
	if len(o.Columns) > ColumnsMax {
		return fmt.Errorf("%w: %d names, more than %d", ErrColumns, len(o.Columns), ColumnsMax)
	}
	for i, name := range o.Columns {
		switch {
		case name == "" || len(name) > columnNameBytesMax || !utf8.ValidString(name):
			return fmt.Errorf("%w: %q is no UTF-8 of 1 to %d bytes", ErrColumns, name, columnNameBytesMax)
		case slices.Contains(names, name):
			return fmt.Errorf("%w: %q is the name of a column that each file has; tags has that tag, too", ErrColumns, name)
		case slices.Contains(o.Columns[:i], name):
			return fmt.Errorf("%w: %q comes twice", ErrColumns, name)
		}
	}
	return nil
}

// Writer writes samples as a Parquet file.
type Writer struct {
	options Options
	file    *parquet.GenericWriter[any]
	leaves  [][]string // paths of columns that hold values, as rows have them

	row        parquet.Row // of the series that is written; time and value change
	time       int         // place in row
	value      int
	rowBytes   int64
	batch      []parquet.Row
	rows       int64 // in this row group
	groupBytes int64
	longest    []int64 // text of each column, in this row group
	tags       []series.Tag
}

// NewWriter returns a Writer. Nothing is written before there is a row group, or Close. Errors: ErrColumns.
func NewWriter(out io.Writer, o Options) (*Writer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	text := parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	root := parquet.Group{
		columnMetric: text,
		columnTags:   parquet.Map(text, text),
		columnTime:   parquet.Encoded(parquet.Timestamp(parquet.Millisecond), &parquet.DeltaBinaryPacked),
		columnValue:  parquet.Leaf(parquet.DoubleType),
	}
	for _, name := range o.Columns {
		root[name] = parquet.Optional(text)
	}
	schema := parquet.NewSchema("samples", root)
	config, err := parquet.NewWriterConfig(schema,
		parquet.CreatedBy("tickmesh", "", ""),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.DataPageVersion(1), // which all readers know
		parquet.DictionaryMaxBytes(dictionaryBytes),
		parquet.PageBufferSize(pageBytes),
		parquet.ColumnIndexSizeLimit(func([]string) int { return directoryTextBytes }),
	)
	if err != nil {
		return nil, err
	}
	w := &Writer{options: o, file: parquet.NewGenericWriter[any](out, config), leaves: schema.Columns()}
	w.batch, w.longest = make([]parquet.Row, 0, batchRows), make([]int64, len(w.leaves))
	return w, nil
}

// Write writes samples of one series, whose times and values are as many. Errors: series.ErrKey, those of the output
// and of Options.Take.
func (w *Writer) Write(key series.Key, timesMs []int64, values []float64) error {
	_, metric, tags, err := key.Parts(w.tags[:0])
	if err != nil {
		return err
	}
	w.tags = tags
	w.begin(metric, tags)
	for len(timesMs) > 0 {
		n := min(len(timesMs), batchRows)
		w.batch = w.batch[:n]
		for i := range n {
			row := append(w.batch[i][:0], w.row...)
			row[w.time] = parquet.Int64Value(timesMs[i]).Level(0, 0, row[w.time].Column())
			row[w.value] = parquet.DoubleValue(values[i]).Level(0, 0, row[w.value].Column())
			w.batch[i] = row
		}
		if _, err := w.file.WriteRows(w.batch); err != nil {
			return err
		}
		timesMs, values = timesMs[n:], values[n:]
		w.rows += int64(n)
		w.groupBytes += int64(n) * w.rowBytes
		if w.rows+batchRows > rowGroupRowsMax || w.groupBytes >= rowGroupBytesMax {
			if err := w.endGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin makes the row of a series.
func (w *Writer) begin(metric []byte, tags []series.Tag) {
	w.row, w.rowBytes = w.row[:0], 0
	for column, path := range w.leaves {
		switch {
		case path[0] == columnMetric:
			w.text(metric, 0, 0, column)
		case path[0] == columnTags:
			w.entries(tags, path[len(path)-1] == "key", column)
		case path[0] == columnTime:
			w.time = len(w.row)
			w.fixed(column)
		case path[0] == columnValue:
			w.value = len(w.row)
			w.fixed(column)
		default:
			w.tag(tags, path[0], column)
		}
	}
}

// text appends a text to the row. Bytes that are no UTF-8 become U+FFFD, as Parquet's strings have none.
func (w *Writer) text(text []byte, repetition, definition, column int) {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	w.row = append(w.row, parquet.ByteArrayValue(text).Level(repetition, definition, column))
	w.rowBytes += int64(len(text)) + levelBytes
	w.longest[column] = max(w.longest[column], int64(len(text)))
}

// levelBytes is what a value holds beside itself: its length and its levels.
const levelBytes = 6

// fixed appends the place of a time or a value.
func (w *Writer) fixed(column int) {
	w.row = append(w.row, parquet.Value{}.Level(0, 0, column))
	w.rowBytes += 8
}

// entries appends the names, or the values, of all tags as entries of the map.
func (w *Writer) entries(tags []series.Tag, keys bool, column int) {
	if len(tags) == 0 {
		w.none(column)
		return
	}
	for i, tag := range tags {
		text := tag.Value
		if keys {
			text = tag.Name
		}
		w.text(text, min(i, 1), 1, column)
	}
}

// tag appends the value of one tag, or that there is none.
func (w *Writer) tag(tags []series.Tag, name string, column int) {
	for _, tag := range tags {
		if string(tag.Name) == name {
			w.text(tag.Value, 0, 1, column)
			return
		}
	}
	w.none(column)
}

func (w *Writer) none(column int) {
	w.row = append(w.row, parquet.NullValue().Level(0, 0, column))
	w.rowBytes += levelBytes
}

// directoryOfGroup returns what the directory will hold of the row group that ends now.
func (w *Writer) directoryOfGroup() int64 {
	bytes := int64(len(w.leaves))*directoryBytes + w.groupBytes/pageBytes*directoryPageBytes
	for _, n := range w.longest {
		bytes += 2 * n // as the least, and as the greatest
	}
	return bytes
}

// endGroup writes what there is as a row group.
func (w *Writer) endGroup() error {
	if w.rows == 0 {
		return nil
	}
	if w.options.Take != nil {
		if err := w.options.Take(w.directoryOfGroup()); err != nil {
			return err
		}
	}
	if err := w.file.Flush(); err != nil {
		return err
	}
	w.trimDirectory()
	w.rows, w.groupBytes = 0, 0
	clear(w.longest)
	return nil
}

// trimDirectory has the directory hold the texts of the last row group as they are written. As the library makes them, they are the
// beginnings of whole ones, which stay in memory with them until the end of the file.
func (w *Writer) trimDirectory() {
	for column, index := range w.file.File().ColumnIndexes() {
		if w.longest[column] <= directoryTextBytes {
			continue
		}
		for _, texts := range [][][]byte{index.MinValues, index.MaxValues} {
			for i, text := range texts {
				texts[i] = bytes.Clone(text)
			}
		}
	}
}

// Close ends the file. Without it, what was written is no Parquet file: readers begin at its end. It does not close the
// output.
func (w *Writer) Close() error {
	if err := w.endGroup(); err != nil {
		return err
	}
	return w.file.Close()
}
