package promql

import (
	"strings"

	"github.com/tickmesh/tickmesh/api/columnar"
	"github.com/tickmesh/tickmesh/api/scan"
)

// exportParquet serves /api/v1/export/parquet: a Parquet file with a row for each sample, as they are read. It is not
// VictoriaMetrics', which has none.
func (h *handler) exportParquet(x *exchange) error {
	e, err := h.exportOf(x)
	if err != nil {
		return err
	}
	o := columnar.Options{Take: x.entry.Take}
	if text := x.form.Get("columns"); text != "" {
		if strings.Count(text, ",") >= columnar.ColumnsMax {
			return invalidParameter(columnar.ErrColumns, "columns")
		}
		o.Columns = strings.Split(text, ",")
	}
	file, err := columnar.NewWriter(exportFile{x.out}, o)
	if err != nil {
		return invalidParameter(err, "columns")
	}
	if err := x.entry.Take(columnar.HeldBytes(len(o.Columns))); err != nil {
		return err
	}
	header := x.out.w.Header()
	header.Set("Content-Type", columnar.ContentType)
	header.Set("Content-Disposition", `attachment; filename="samples.parquet"`)
	if err := e.each(x, func(chunk *scan.Chunk) error { return file.Write(chunk.Key, chunk.Times, chunk.Values) }); err != nil {
		return err
	}
	return file.Close()
}

// exportFile is an answer as what a file is written to.
type exportFile struct{ out *encoder }

// Write implements io.Writer.
func (f exportFile) Write(b []byte) (int, error) {
	f.out.buf = append(f.out.buf, b...)
	f.out.flushIfLong()
	return len(b), f.out.err
}
