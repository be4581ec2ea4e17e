package promql

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Bounds of lines of an export.
const (
	exportLineSamples = 5_000 // so that /api/v1/import takes each line (parse.JSONLineBytesMax)
	exportLineBytes   = exportLineSamples * 48
	contentLines      = "application/stream+json; charset=utf-8"
)

// export serves /api/v1/export as VictoriaMetrics does: lines of JSON, each with samples of one series, as they are
// read. A series of many samples has many lines.
func (h *handler) export(x *exchange) error {
	e, err := h.exportOf(x)
	if err != nil {
		return err
	}
	lines := exportLines{out: x.out, samples: exportLineSamples}
	if text := x.form.Get("max_rows_per_line"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return invalidParameter(fmt.Errorf("cannot parse %q to a number of samples", text), "max_rows_per_line")
		}
		if n > 0 {
			lines.samples = min(n, exportLineSamples)
		}
	}
	x.out.w.Header().Set("Content-Type", contentLines)
	return e.each(x, lines.visit)
}

// exported is what an export reads. A series that several match[] pick comes for each of them.
type exported struct {
	sets         [][]*labels.Matcher
	fromMs, toMs int64
}

// exportOf reads the parameters of an export, and takes the memory for its lines.
func (h *handler) exportOf(x *exchange) (e exported, err error) {
	if len(x.form["match[]"]) == 0 {
		return e, badData(errors.New("no match[] parameter provided"))
	}
	if x.reader.Consistency.Partial {
		return e, badData(errExportPartial)
	}
	if e.sets, err = h.selectors(x); err != nil {
		return e, err
	}
	start, err := timeParameter(x.form, "start", timeMin)
	if err != nil {
		return e, err
	}
	end, err := timeParameter(x.form, "end", timeMax)
	if err != nil {
		return e, err
	}
	if end.Before(start) {
		return e, badData(errEndBeforeStart)
	}
	e.fromMs, e.toMs = max(start.UnixMilli(), scan.TimeMsMin), min(end.UnixMilli(), scan.TimeMsMax)
	return e, x.entry.Take(exportLineBytes + encoderBytesFlush)
}

// each visits all that is exported, as it is read.
func (e *exported) each(x *exchange, visit func(*scan.Chunk) error) error {
	for _, set := range e.sets {
		selectors, err := selectorsOf(x.ctx, x.reader.Source, x.database, set)
		if err != nil {
			return err
		}
		for i := range selectors {
			request := &scan.Request{Selector: selectors[i], FromMs: e.fromMs, ToMs: e.toMs}
			if err := x.reader.Source.Scan(x.ctx, request, func(_ int, chunk *scan.Chunk) error { return visit(chunk) }); err != nil {
				return fromSource(err)
			}
		}
	}
	return nil
}

// errExportPartial refuses what could only be told behind the answer.
var errExportPartial = errors.New("an export is whole or fails: it takes no parameter partial")

// exportLines writes the lines of an export.
type exportLines struct {
	out     *encoder
	samples int // of a line at most
	naming  naming
}

// visit writes the lines of a chunk.
func (e *exportLines) visit(chunk *scan.Chunk) error {
	named, err := e.naming.labels(chunk.Key)
	if err != nil {
		return err
	}
	out := e.out
	for from := 0; from < len(chunk.Times); from += e.samples {
		to := min(from+e.samples, len(chunk.Times))
		out.buf = append(out.buf, `{"metric":`...)
		out.labels(named)
		out.buf = append(out.buf, `,"values":[`...)
		for i, v := range chunk.Values[from:to] {
			if i > 0 {
				out.buf = append(out.buf, ',')
			}
			out.buf = appendExported(out.buf, v)
		}
		out.buf = append(out.buf, `],"timestamps":[`...)
		for i, ms := range chunk.Times[from:to] {
			if i > 0 {
				out.buf = append(out.buf, ',')
			}
			out.buf = strconv.AppendInt(out.buf, ms, 10)
		}
		out.buf = append(out.buf, "]}\n"...)
		out.flushIfLong()
		if out.err != nil {
			return out.err
		}
	}
	return nil
}

// appendExported appends a value as VictoriaMetrics writes it; a NaN that is no staleness marker, which it does not
// have, is a word.
func appendExported(dst []byte, v float64) []byte {
	switch {
	case value.IsStaleNaN(v):
		return append(dst, "null"...)
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}
