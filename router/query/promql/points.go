package promql

import (
	"cmp"
	"context"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// pointsInBlock is how many points are handed on at a time.
const pointsInBlock = 1 << 11

// points makes columns of single samples, of which there may be very many. They come one
// after the other, from workers of storage that nobody may keep waiting, so that blocks of them are
// only worked on when all are there.
type points struct {
	entry    *admission.Entry
	parallel int
	block    *pointBlock
	blocks   []*pointBlock

	keyBytes int // of the keys of the block before
}

// pointBlock is some points, and the columns that they become.
type pointBlock struct {
	keys    []byte
	ends    []int // of each key
	times   []int64
	values  []float64
	columns []column
	err     error
}

func newPoints(entry *admission.Entry, parallel int) *points {
	return &points{entry: entry, parallel: parallel}
}

// add takes a point.
func (p *points) add(point scan.Point) error {
	b := p.block
	if b == nil {
		b = &pointBlock{}
		if len(p.blocks) > 0 { // the second block and later ones are likely to be full
			b.keys = make([]byte, 0, p.keyBytes+p.keyBytes/8)
			b.ends, b.times, b.values = make([]int, 0, pointsInBlock), make([]int64, 0, pointsInBlock), make([]float64, 0, pointsInBlock)
		}
		p.block, p.blocks = b, append(p.blocks, b)
	}
	b.keys = append(b.keys, point.Key...)
	b.ends = append(b.ends, len(b.keys))
	b.times, b.values = append(b.times, point.TimeMs), append(b.values, point.Value)
	if len(b.ends) < pointsInBlock {
		return nil
	}
	return p.charge()
}

// charge charges the block that is full, or the last one.
func (p *points) charge() error {
	b := p.block
	p.block = nil
	if b == nil {
		return nil
	}
	p.keyBytes = len(b.keys)
	return p.entry.Take(int64(len(b.keys) + len(b.ends)*(columnBytes+16)))
}

// name makes the columns of a block.
func (b *pointBlock) name() {
	b.columns = make([]column, len(b.ends))
	var names naming
	from := 0
	for i, end := range b.ends {
		named, err := names.labels(b.keys[from:end])
		if err != nil {
			b.err = err
			return
		}
		from = end
		b.columns[i] = column{labels: named, times: b.times[i : i+1 : i+1], values: b.values[i : i+1 : i+1]}
	}
	b.keys, b.ends = nil, nil
}

// finish makes the columns of all points, with all processors.
func (p *points) finish(ctx context.Context) ([][]column, error) {
	if err := p.charge(); err != nil {
		return nil, err
	}
	err := inParallel(ctx, p.parallel, len(p.blocks), func(ctx context.Context, i int) error {
		processor.Of(ctx).Pace()
		p.blocks[i].name()
		return cmp.Or(p.blocks[i].err, ctx.Err())
	})
	runs := make([][]column, len(p.blocks))
	for i, b := range p.blocks {
		runs[i] = b.columns
	}
	return runs, err
}
