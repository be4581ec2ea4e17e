package parse

import "strconv"

// labelRun writes the labels of one series after the other to a batch's Scratch, as a Line of FormLabels or FormText has
// them.
type labelRun struct {
	b           *Batch
	keyBytesMax int
	start       int // of the current series
}

// begin starts a series.
func (r *labelRun) begin() { r.start = len(r.b.Scratch) }

// add adds a label. Its errors are those of Memory.
func (r *labelRun) add(name, value []byte) (fault, error) {
	const frameBytes = 16 // three tags and three lengths
	b := r.b
	if len(b.Scratch)-r.start+len(name)+len(value) > r.keyBytesMax+r.keyBytesMax/2 {
		return fault{KindLimit, "labels are longer than " + strconv.Itoa(r.keyBytesMax) + " bytes"}, nil
	}
	if err := b.scratchRoom(len(name) + len(value) + frameBytes); err != nil {
		return fault{}, err
	}
	b.Scratch = appendLabel(b.Scratch, name, value, "")
	return fault{}, nil
}

// end makes a line of the series. Its error is ErrTooLarge.
func (r *labelRun) end(l *Line) error {
	end := uint32(len(r.b.Scratch))
	l.Head, l.Tags, l.InScratch = Span{uint32(r.start), end}, Span{end, end}, true
	if end > scratchBytesMax {
		return ErrTooLarge
	}
	return nil
}

// undo takes back the labels of a series that is refused.
func (r *labelRun) undo() { r.b.Scratch = r.b.Scratch[:r.start] }
