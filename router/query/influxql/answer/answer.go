// Package answer writes what InfluxQL's statements return, in the forms of InfluxDB's HTTP API: values of the
// kinds that InfluxDB knows stand in rows, rows in series, and series in one JSON document, in one for
// each chunk, or in CSV, which are sent as they grow. It does not know where rows come from.
package answer

import (
	"net/http"
	"strconv"
	"time"
)

// Tag is one name and value of a series.
type Tag struct{ Key, Value string }

// Head begins a series of an answer.
type Head struct {
	Name    string
	Tags    []Tag // by key
	Columns []string
	Timed   bool           // the first column is the time of the rows
	Zone    *time.Location // of times as text; nil: UTC
}

// Sink takes the rows of one statement, series by series. What it is given is its own
// only until it returns.
type Sink interface {
	Series(h *Head) error
	Row(timeNs int64, values []Value) error
}

// Format writes an answer in one form of text. Calls come in this order, where what is in
// brackets may come any number of times:
//
//	Begin [BeginStatement [Series [Row]] EndStatement] End
type Format interface {
	Begin()
	BeginStatement(id int)
	Series(h *Head)
	Row(timeNs int64, values []Value)
	EndStatement(end *Ending)
	End()
}

// Options choose the form of an answer; the zero value is one JSON document with times as text.
type Options struct {
	EpochNs   int64  // unit of times; 0: text
	Pretty    bool   // JSON with four spaces for each level
	ChunkRows int    // rows of a document, with one for each chunk of a series; 0: one document
	CSVType   string // content type of CSV; empty: JSON
}

// New returns the form that an answer is written in, and sets its content type.
func New(w http.ResponseWriter, o Options) Format {
	p := page{w: w, per: o.EpochNs, held: pageBytesHeld, text: make([]byte, 0, pageBytesFirst)}
	if o.CSVType != "" {
		w.Header().Set("Content-Type", o.CSVType)
		return &csvFormat{page: p}
	}
	w.Header().Set("Content-Type", "application/json")
	if o.Pretty {
		p.w = newIndenter(w)
	}
	if o.ChunkRows > 0 {
		return &chunkedFormat{page: p, rowsMax: o.ChunkRows}
	}
	return &jsonFormat{page: p}
}

// Ending is how a statement ended.
type Ending struct {
	Err     error
	Partial bool // rows were left out because there were too many
}

// page is the text of an answer as it grows: it goes out when there is much of it.
type page struct {
	w    http.ResponseWriter
	text []byte
	err  error          // of writing; later text is dropped
	held int            // text that is held back at most
	zone *time.Location // of times as text; nil: UTC
	per  int64          // nanoseconds of one unit of epoch; 0: times are text

	timed bool // rows of the open series begin with their time
}

const (
	pageBytesFirst = 4 << 10
	pageBytesHeld  = 256 << 10 // an error within so much of a statement's answer replaces it
	pageBytesFlush = 32 << 10
)

// flush sends the text.
func (p *page) flush() {
	if p.err == nil && len(p.text) > 0 {
		_, p.err = p.w.Write(p.text)
	}
	p.text = p.text[:0]
}

// push sends the text on to the client at once.
func (p *page) push() {
	p.flush()
	if f, ok := p.w.(http.Flusher); ok && p.err == nil {
		f.Flush()
	}
}

func (p *page) flushIfLong() {
	if len(p.text) >= p.held {
		p.flush()
		p.held = pageBytesFlush
	}
}

// appendTime appends a time of the time column, as text without quotes or as a number.
func (p *page) appendTime(ns int64, quote string) {
	if p.per != 0 {
		p.text = strconv.AppendInt(p.text, ns/p.per, 10)
		return
	}
	zone := p.zone
	if zone == nil {
		zone = time.UTC
	}
	p.text = append(p.text, quote...)
	p.text = time.Unix(0, ns).In(zone).AppendFormat(p.text, time.RFC3339Nano)
	p.text = append(p.text, quote...)
}
