package parse

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of one frame of pickles.
const (
	// PickleBytesMax is carbon's own bound (MAX_LENGTH).
	PickleBytesMax = 1 << 20
	// PickleWorkBytesMax is what the objects of a frame take at most while it is read, and PickleWorkMultiple how
	// many times its length.
	PickleWorkBytesMax = 8 << 20
	PickleWorkMultiple = 64
)

// picklePointsEnough bounds a batch: a path that stands there once may have a point every five bytes.
const picklePointsEnough = 1 << 13

// pickleHeaderBytes is the length of a frame in front of it.
const pickleHeaderBytes = 4

// ErrPickleFrame marks a frame that is longer than PickleBytesMax: what follows cannot be found.
var ErrPickleFrame = fmt.Errorf("%w: a frame of pickles has no more than %d bytes", ErrTooLarge, PickleBytesMax)

// HasPickle reports whether a stream that begins with a frame holds all of it, or enough to refuse it.
func HasPickle(stream []byte) bool {
	if len(stream) < pickleHeaderBytes {
		return false
	}
	size := binary.BigEndian.Uint32(stream)
	return size > PickleBytesMax || len(stream)-pickleHeaderBytes >= int(size)
}

// GraphitePickle parses the frames of Graphite's pickle protocol: the length of each in four bytes, the high one
// first, and a pickle of a list of (path, (time, value)). Behind some thousand points it leaves whole frames to the next call.
//
// Of Python's pickles, protocols 0 to 5, it knows numbers, texts without escapes, tuples and lists, as carbon's
// clients send them, and refuses a frame with anything else: nothing is ever imported or called. Times and values may be texts.
//
// Its errors are ErrPickleFrame, ErrTooLarge and those of b.Memory; those of frames and points are in b.Errors.
func GraphitePickle(b *Batch, body []byte, o GraphiteOptions) (Rest, error) {
	if err := b.reset(body); err != nil {
		return Rest{}, err
	}
	p := newGraphiteParser(b, o)
	at := 0
	for len(b.Lines) < picklePointsEnough && HasPickle(body[at:]) {
		size := int(binary.BigEndian.Uint32(body[at:]))
		switch {
		case size > PickleBytesMax && at > 0: // for the next call: the frames before it are good
			return Rest{Consumed: at}, nil
		case size > PickleBytesMax:
			b.Reset()
			return Rest{}, ErrPickleFrame
		}
		start := at + pickleHeaderBytes
		at = start + size
		if err := p.frame(start, at); err != nil {
			b.Reset()
			return Rest{}, err
		}
	}
	return Rest{Consumed: at}, nil
}

// frame reads the pickle at body[start:end]. Errors: those of Memory.
func (p *graphiteParser) frame(start, end int) error {
	m := pickleMachine{body: p.b.Body, at: start, end: end}
	list, wrong := m.list()
	if wrong.detail != "" {
		p.number++
		p.refuse(Span{uint32(start), uint32(min(end, start+excerptBytesMaxPut))}, wrong)
		return nil
	}
	for cell := m.sequences[list.at].first; cell != 0; cell = m.cells[cell-1].next {
		p.number++
		if err := p.b.room(); err != nil {
			return err
		}
		p.pickled(&m, m.cells[cell-1].value)
	}
	return nil
}

// list runs the pickle, which is to be a list.
func (m *pickleMachine) list() (pickleValue, fault) {
	v, err := m.run()
	if err == nil && v.kind != pickleList {
		err = errPickleKind
	}
	if err != nil {
		return v, syntaxFault("the frame is no pickle of points: " + err.Error())
	}
	return v, fault{}
}

// pickled adds the point (path, (time, value)).
func (p *graphiteParser) pickled(m *pickleMachine, point pickleValue) {
	path, sample, ok := m.pair(point)
	var time, value pickleValue
	if ok && path.kind == pickleText {
		time, value, ok = m.pair(sample)
	}
	if !ok || path.kind != pickleText {
		p.refuse(Span{}, syntaxFault("expected (path, (time, value))"))
		return
	}
	text := Span{path.at, path.end}
	if text.Len() > p.limits.KeyBytesMax { // one path may be that of very many points
		p.refuse(Span{text.Start, min(text.End, text.Start+ExcerptBytesMax)}, keyTooLong(text.Len(), p.limits.KeyBytesMax))
		return
	}
	n, isNumber, wrong := p.pickledValue(value)
	if !isNumber {
		p.b.SkippedStrings++
		return
	}
	var timeMs int64
	if wrong.detail == "" {
		timeMs, wrong = p.pickledTime(time)
	}
	if wrong.detail != "" {
		p.refuse(text, wrong)
		return
	}
	p.add(text, text, timeMs, n)
}

// pickledValue reads a value; isNumber is false for NaN.
func (p *graphiteParser) pickledValue(v pickleValue) (n series.Number, isNumber bool, wrong fault) {
	switch {
	case v.kind == pickleInteger:
		return integerNumber(v.integer), true, fault{}
	case v.kind == pickleFloat && math.IsNaN(v.float()):
		return n, false, fault{}
	case v.kind == pickleFloat && !math.IsInf(v.float(), 0):
		return series.DecimalOf(v.float(), 0), true, fault{}
	case v.kind == pickleText:
		word := p.b.Body[v.at:v.end]
		if isNaN(word) {
			return n, false, fault{}
		}
		n, wrong = graphiteValue(word)
		return n, true, wrong
	}
	return n, true, valueFault("the value is no number")
}

func (p *graphiteParser) pickledTime(v pickleValue) (timeMs int64, wrong fault) {
	switch v.kind {
	case pickleInteger:
		return p.numericTime(float64(v.integer))
	case pickleFloat:
		return p.numericTime(v.float())
	case pickleText:
		return p.textTime(p.b.Body[v.at:v.end])
	}
	return 0, valueFault("the time is no number")
}
