package answer

import "strconv"

// chunkedFormat writes a JSON document for each chunk of rows of one series, as soon as it
// is known whether another one follows.
type chunkedFormat struct {
	page
	rowsMax int

	id      int
	head    []byte // the open series as far as its values
	rows    int    // of the chunk in text
	open    bool   // a chunk is in text
	written bool   // the statement has a document
}

// Begin implements Format.
func (f *chunkedFormat) Begin() {}

// BeginStatement implements Format.
func (f *chunkedFormat) BeginStatement(id int) { f.id, f.open, f.written = id, false, false }

// Series implements Format.
func (f *chunkedFormat) Series(h *Head) {
	f.closeChunk(false, true)
	f.head = appendHead(f.head[:0], h)
	f.timed, f.zone = h.Timed, h.Zone
	f.openChunk()
}

func (f *chunkedFormat) openChunk() {
	f.text = strconv.AppendInt(append(f.text, `{"results":[{"statement_id":`...), int64(f.id), 10)
	f.text = append(append(f.text, `,"series":[`...), f.head...)
	f.open, f.rows, f.written = true, 0, true
}

// Row implements Format.
func (f *chunkedFormat) Row(timeNs int64, values []Value) {
	if f.rows >= f.rowsMax {
		f.closeChunk(true, true)
		f.openChunk()
	}
	if f.rows > 0 {
		f.text = append(f.text, ',')
	} else {
		f.text = append(f.text, `,"values":[`...)
	}
	f.rows++
	f.appendRow(timeNs, values)
}

// closeChunk ends the document of the open chunk: the series goes on, or more chunks of
// the statement follow.
func (f *chunkedFormat) closeChunk(goesOn, more bool) {
	if !f.open {
		return
	}
	f.open = false
	if f.rows > 0 {
		f.text = append(f.text, ']')
	}
	if goesOn {
		f.text = append(f.text, `,"partial":true`...)
	}
	f.text = append(f.text, `}]`...)
	f.text = appendEnding(f.text, &Ending{Partial: more})
	f.text = append(f.text, "}]}\n"...)
	f.push()
}

// EndStatement implements Format.
func (f *chunkedFormat) EndStatement(end *Ending) {
	f.closeChunk(false, end.Err != nil)
	if end.Err == nil && f.written {
		return
	}
	f.text = strconv.AppendInt(append(f.text, `{"results":[{"statement_id":`...), int64(f.id), 10)
	f.text = append(appendEnding(f.text, end), "}]}\n"...)
	f.push()
}

// End implements Format.
func (f *chunkedFormat) End() {}
