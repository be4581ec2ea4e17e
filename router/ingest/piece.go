package ingest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/parse"
)

// A piece is the part of a batch that is split and written at once. A body of a few
// megabytes may hold millions of points, of new series each: without pieces they
// would take gigabytes while they are encoded, and more than a log takes in one
// write. Nearly all bodies are one piece.
const (
	piecePointsMax   = 1 << 17
	pieceKeyBytesMax = 8 << 20 // were all of its series new; a single line may have more
)

// pieceLines gives how many of the lines, at least one, are the next piece.
func pieceLines(b *parse.Batch, lines []parse.Line) int {
	if n := pointsOf(lines); n <= piecePointsMax && n*(len(b.Body)+len(b.Scratch)) <= pieceKeyBytesMax {
		return len(lines)
	}
	points, keyBytes := 0, 0
	for i := range lines {
		l := &lines[i]
		keys := 1
		if l.Form == parse.FormLine { // one for each field
			keys = int(l.Count)
		}
		points += int(l.Count)
		keyBytes += keys * (l.Head.Len() + l.Tags.Len())
		if i > 0 && (points > piecePointsMax || keyBytes > pieceKeyBytesMax) {
			return i
		}
	}
	return len(lines)
}

// pointsOf gives the number of points of neighbouring lines.
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
// before it come to no harm by that.
func (w *worker) write(database []byte, timeout time.Duration) (result, error) {
	b := &w.batch
	r := result{refused: b.ErrorPoints, skipped: b.SkippedStrings}
	if len(b.Lines) == 0 {
		return r, nil
	}
	kept, total, lost := len(b.Errors), b.ErrorsTotal, b.ErrorPoints
	w.deadline.start(timeout)
	all := b.Lines
	var err error
	for rest := all; len(rest) > 0; {
		n := pieceLines(b, rest)
		first := len(all) - len(rest)
		b.Lines, rest = rest[:n], rest[n:]
		if err = w.writePiece(database, first, &r); err != nil {
			r.failed += pointsOf(rest)
			break
		}
	}
	b.Lines = all
	if !w.deadline.rest() {
		w.deadline.release()
		w.deadline = newDeadline(w.deadline.parent)
	}
	if err != nil {
		b.Errors, b.ErrorsTotal, b.ErrorPoints = b.Errors[:kept], total, lost
		return r, err
	}
	b.SortErrors()
	if r.again > 0 {
		return r, fmt.Errorf("%w: %d points wait for theirs", series.ErrSeriesRate, r.again)
	}
	return r, nil
}

// writePiece splits and writes the lines of the batch, of which the first one has a
// number within the request.
func (w *worker) writePiece(database []byte, first int, r *result) error {
	b := &w.batch
	kept, total, lost := len(b.Errors), b.ErrorsTotal, b.ErrorPoints
	frame := w.splitter.Split(b, database, w.resolver, w.generation())
	if frame.Points == 0 {
		r.refused += pointsOf(b.Lines)
		return nil
	}
	w.promise.give(frame, first, len(b.Lines))
	outcome, err := w.writer.Write(w.deadline, frame)
	if errors.Is(err, series.ErrEra) {
		// The ids have been forgotten by now, so this time the keys go out.
		b.Errors, b.ErrorsTotal, b.ErrorPoints = b.Errors[:kept], total, lost
		frame = w.splitter.Split(b, database, w.resolver, w.generation())
		w.promise.give(frame, first, len(b.Lines))
		outcome, err = w.writer.Write(w.deadline, frame)
	}
	r.refused += pointsOf(b.Lines) - frame.Points
	if err != nil {
		r.failed += frame.Points
		var copies *series.CopiesError
		if errors.As(err, &copies) {
			r.copies = copies.Copies
		}
		return err
	}
	left := w.splitter.Refused(b, outcome)
	if passes(outcome) {
		r.again += left
	}
	r.refused += left
	r.accepted += frame.Points - left
	if r.copies == 0 || outcome.Copies < r.copies {
		r.copies = outcome.Copies
	}
	return nil
}

// passes says whether another try may place what was refused.
func passes(outcome series.Outcome) bool {
	return slices.ContainsFunc(outcome.Refused, func(r series.Refusal) bool { return errors.Is(r.Err, series.ErrSeriesRate) })
}
