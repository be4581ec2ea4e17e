package influxql

import (
	"net/http"
	"strconv"
	"time"
)

// tag is one name and value of a series.
type tag struct{ key, value string }

// head begins a series of an answer.
type head struct {
	name    string
	tags    []tag // by key
	columns []string
	timed   bool           // the first column is the time of the rows
	zone    *time.Location // of times as text; nil: UTC
}

// sink takes the rows of one statement, series by series. What it is given is its own
// only until it returns.
type sink interface {
	series(h *head) error
	row(timeNs int64, values []value) error
}

// format writes an answer in one form of text. Calls come in this order, where what is in
// brackets may come any number of times:
//
//	begin [beginStatement [series [row]] endStatement] end
type format interface {
	begin()
	beginStatement(id int)
	series(h *head)
	row(timeNs int64, values []value)
	endStatement(end *ending)
	end()
}

// ending is how a statement ended.
type ending struct {
	err     error
	partial bool // rows were left out because there were too many
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
