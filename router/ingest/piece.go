package ingest

import (
	"errors"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// A piece is the part of a batch that is split and written at once. A body of a few
// megabytes may hold millions of points, of new series each: without pieces they
// would take gigabytes while they are encoded, and more than a log takes in one
// write. Nearly all bodies are one piece.
const (
	piecePointsMax   = 1 << 17
	pieceKeyBytesMax = 8 << 20 // were all of its series new; a single line may have more
)

// Memory of a piece while it is encoded: for each point, and as a multiple of its keys,
// which are copied, encoded and put together. A piece of pieceBytesFree costs nothing.
const (
	piecePointBytes  = 24
	pieceKeyMultiple = 3
	pieceBytesFree   = 1 << 20
)

// pieceLines returns how many of the lines, at least one, are the next piece, and about how
// many bytes it takes beyond those that are free.
func pieceLines(b *parse.Batch, lines []parse.Line) (n, bytes int) {
	cost := func(points, keyBytes int) int {
		return max(0, piecePointBytes*points+pieceKeyMultiple*keyBytes-pieceBytesFree)
	}
	if n := pointsOf(lines); n*piecePointBytes+pieceKeyMultiple*keyBytesMax(b, lines) <= pieceBytesFree {
		return len(lines), 0
	}
	points, keyBytes := 0, 0
	for i := range lines {
		l := &lines[i]
		keys := 1
		if l.Form == parse.FormLine { // one for each field
			keys = int(l.Count)
		}
		morePoints, moreKeyBytes := points+int(l.Count), keyBytes+keys*(l.Head.Len()+l.Tags.Len())
		moreKeyBytes += keys * len(b.Extra.Text())
		if i > 0 && (morePoints > piecePointsMax || moreKeyBytes > pieceKeyBytesMax) {
			return i, cost(points, keyBytes)
		}
		points, keyBytes = morePoints, moreKeyBytes
	}
	return len(lines), cost(points, keyBytes)
}

// keyBytesMax returns at least the bytes of the keys of all points of the lines, without
// looking at each. Lines of the line protocol have a point each, and share no text, so that only
// further fields of a line repeat it; elsewhere each point may have all of it.
func keyBytesMax(b *parse.Batch, lines []parse.Line) int {
	repeats := pointsOf(lines)
	if len(lines) > 0 && lines[0].Form == parse.FormLine {
		repeats -= len(lines) - 1
	}
	return repeats*(len(b.Body)+len(b.Scratch)) + pointsOf(lines)*len(b.Extra.Text())
}

// payPiece takes the memory for a piece, unless that of one before is enough.
func (fl *inFlightWrite) payPiece(bytes int) error {
	more := bytes - fl.piecePaid
	if fl.memory == nil || more <= 0 {
		return nil
	}
	if err := fl.memory.Grow(more); err != nil {
		return err
	}
	fl.piecePaid = bytes
	return nil
}

// pointsOf returns the number of points of neighbouring lines.
func pointsOf(lines []parse.Line) int {
	if len(lines) == 0 {
		return 0
	}
	last := &lines[len(lines)-1]
	return int(last.First + last.Count - lines[0].First)
}

// write splits the parsed batch and writes it. The batch has the errors of all
// lines that were left out, in the order of the lines. After an error the points
// that failed may be written by the same call, made again; those that were accepted
// before it come to no harm by that. After errParseAgain nothing was written, and the
// call is to be made again once the input is parsed again.
func (fl *inFlightWrite) write(database []byte, timeout time.Duration) (result, error) {
	b := &fl.worker.batch
	r := result{lines: len(b.Lines), refused: b.ErrorPoints, skipped: b.SkippedStrings}
	if len(b.Lines) == 0 {
		return r, nil
	}
	if !fl.again {
		fl.deadline.start(timeout)
	}
	err := fl.writeAll(database, &r)
	if errors.Is(err, errParseAgain) {
		return result{}, err
	}
	fl.endDeadline()
	if err == nil && r.again > 0 {
		err = fmt.Errorf("%w: %d points wait for theirs", r.againWhy, r.again)
	}
	return r, err
}

// writeAll writes the batch piece by piece.
func (fl *inFlightWrite) writeAll(database []byte, r *result) error {
	b := &fl.worker.batch
	kept, total, lost := len(b.Errors), b.ErrorsTotal, b.ErrorPoints
	all := b.Lines
	var err error
	for rest := all; len(rest) > 0; {
		fl.work.Pace()
		n, bytes := pieceLines(b, rest)
		if err = fl.payPiece(bytes); err != nil {
			r.failed += pointsOf(rest)
			break
		}
		first := len(all) - len(rest)
		b.Lines, rest = rest[:n], rest[n:]
		err = fl.writePiece(database, first, n == len(all), r)
		if fl.worker == nil || errors.Is(err, errParseAgain) {
			return err // the batch is another write's, or empty
		}
		if err != nil {
			r.failed += pointsOf(rest)
			break
		}
	}
	b.Lines = all
	if err != nil {
		b.Errors, b.ErrorsTotal, b.ErrorPoints = b.Errors[:kept], total, lost
		return err
	}
	b.SortErrors()
	return nil
}

// writePiece splits and writes the lines of the batch, of which the first one has a
// number within the request; whole: they are all of it.
func (fl *inFlightWrite) writePiece(database []byte, first int, whole bool, r *result) error {
	w := fl.worker
	b := &w.batch
	kept, total, lost := len(b.Errors), b.ErrorsTotal, b.ErrorPoints
	frame := w.split(database)
	if frame.Points == 0 {
		r.refused += pointsOf(b.Lines)
		return nil
	}
	if whole && fl.mayLeave() {
		return fl.writeAlone(r)
	}
	fl.work.Idle()
	fl.options.setOn(frame, first, len(b.Lines))
	outcome, err := fl.writer.Write(fl.deadline, frame)
	if errors.Is(err, series.ErrEra) && !fl.again {
		// The ids have been forgotten by now, so this time the keys go out.
		b.Errors, b.ErrorsTotal, b.ErrorPoints = b.Errors[:kept], total, lost
		frame = w.split(database)
		fl.options.setOn(frame, first, len(b.Lines))
		outcome, err = fl.writer.Write(fl.deadline, frame)
	}
	r.refused += pointsOf(b.Lines) - frame.Points
	if err != nil {
		r.fail(frame.Points, err)
		return err
	}
	left := w.splitter.Refused(b, outcome)
	if why := passing(outcome); why != nil {
		r.again += left
		if r.againWhy == nil {
			r.againWhy = why
		}
	} else if len(outcome.Refused) > 0 && r.refusal == nil {
		r.refusal = outcome.Refused[0].Err
	}
	r.refused += left
	r.accepted += frame.Points - left
	if r.copies == 0 || outcome.Copies < r.copies {
		r.copies = outcome.Copies
	}
	return nil
}

// passing returns why something was refused that another try may place; nil: there is no such thing.
func passing(outcome series.Outcome) error {
	for i := range outcome.Refused {
		if err := outcome.Refused[i].Err; errors.Is(err, series.ErrSeriesRate) {
			return err
		}
	}
	return nil
}
