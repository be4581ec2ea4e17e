package influxql

import "github.com/tickmesh/tickmesh/router/query/influxql/answer"

// list writes one series of rows without time, with OFFSET and LIMIT; none when there are no rows.
func list(out answer.Sink, h *answer.Head, rows [][]answer.Value, offset, limit int) error {
	rows = rows[min(max(offset, 0), len(rows)):]
	if limit > 0 {
		rows = rows[:min(limit, len(rows))]
	}
	if len(rows) == 0 {
		return nil
	}
	return listAll(out, h, rows)
}

// listAll writes one series of rows without time, also without any row.
func listAll(out answer.Sink, h *answer.Head, rows [][]answer.Value) error {
	if err := out.Series(h); err != nil {
		return err
	}
	for _, row := range rows {
		if err := out.Row(0, row); err != nil {
			return err
		}
	}
	return nil
}

// textRows returns rows of one text each.
func textRows(texts []string) [][]answer.Value {
	rows := make([][]answer.Value, len(texts))
	for i, text := range texts {
		rows[i] = []answer.Value{answer.String(text)}
	}
	return rows
}
