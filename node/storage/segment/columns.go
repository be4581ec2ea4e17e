package segment

import "github.com/tickmesh/tickmesh/node/storage/codec"

func columnsBetween(c *codec.Columns, from, to int) codec.Columns {
	return codec.Columns{Times: c.Times[from:to], Mantissas: c.Mantissas[from:to], Scales: c.Scales[from:to]}
}

func appendColumns(dst, c *codec.Columns) {
	dst.Times = append(dst.Times, c.Times...)
	dst.Mantissas = append(dst.Mantissas, c.Mantissas...)
	dst.Scales = append(dst.Scales, c.Scales...)
}
