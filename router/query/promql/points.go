package promql

import (
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// pointsInBlock is how many points are handed on at a time.
const pointsInBlock = 1 << 11

// points makes columns of single samples, of which there may be very many. They come one
// after the other from one goroutine; blocks of them are worked on by others meanwhile.
type points struct {
	entry  *admission.Entry
	places chan struct{} // one for each block that is being worked on
	group  sync.WaitGroup
	block  *pointBlock
	blocks []*pointBlock

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
	return &points{entry: entry, places: make(chan struct{}, max(1, parallel))}
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
	return p.handOn()
}

// handOn begins the work on a block, once there is a place for it.
func (p *points) handOn() error {
	b := p.block
	p.block = nil
	if b == nil {
		return nil
	}
	p.keyBytes = len(b.keys)
	if err := p.entry.Take(int64(len(b.keys) + len(b.ends)*(columnBytes+16))); err != nil {
		return err
	}
	p.places <- struct{}{}
	p.group.Go(func() {
		b.name()
		<-p.places
	})
	return nil
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

// wait ends the work and returns the columns.
func (p *points) wait() ([][]column, error) {
	err := p.handOn()
	p.group.Wait()
	var runs [][]column
	for _, b := range p.blocks {
		if b.err != nil {
			err = b.err
		}
		runs = append(runs, b.columns)
	}
	return runs, err
}
