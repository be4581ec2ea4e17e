package ingest

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// inFlightWrite is one write from its parsing to its answer. It needs a worker only while it
// is parsed and split, which takes microseconds; the answer takes as long as disks and
// networks do. So it gives its worker back before it waits, wherever nothing of the
// worker can be asked for any more. A few workers, whose memory the processors' caches
// hold and whose memos know all lines, then serve all.
type inFlightWrite struct {
	workers *workers
	worker  *worker // nil: given back
	writer  Writer

	options  writeOptions
	deadline *deadline
	encoded  series.EncodedFrame // the frame, once the worker is given back
	// again: the worker was given back, but the input has to be parsed and split once
	// more. Until that is written the deadline goes on.
	again bool

	// memory pays for what the input becomes; nil: it is small.
	memory    parse.Memory
	work      *processor.Work // of parsing and splitting; nil: it is light
	heavy     bool            // it has one of workers.heavy
	piecePaid int             // bytes paid for the largest piece

	// chunk is the place of the input in a body that is written in chunks.
	chunk chunk

	text    []byte      // of the answer
	nothing parse.Batch // see batch
}

// chunk describes a part of a body of lines that is written while the body arrives.
type chunk struct {
	number     int        // from 1; 0: the input is a whole body
	more       bool       // the last line may go on in the next chunk
	lines      uint32     // of the body, before it
	insideLine bool       // it begins within a line that was refused for its length
	rest       parse.Rest // what the parser has left for the next chunk
}

// errParseAgain asks the caller of inFlightWrite.write to parse the same input again, into the
// worker that the write has by now, and to call it once more. It does not come twice
// for one input.
var errParseAgain = errors.New("the ids of this input have been forgotten: it is to be parsed again")

// batch returns the parsed batch with the errors of the lines that were left out. Without
// a worker it is empty: none was.
func (fl *inFlightWrite) batch() *parse.Batch {
	if fl.worker == nil {
		return &fl.nothing
	}
	return &fl.worker.batch
}

// mayLeave reports whether the batch, which was split as a whole, is not needed for the answer: no line
// was left out, no series can be refused, and there is no command to be answered.
func (fl *inFlightWrite) mayLeave() bool {
	b := &fl.worker.batch
	return !fl.again && b.ErrorsTotal == 0 && len(b.Commands) == 0 && !fl.worker.splitter.Defines()
}

// writeAlone returns the worker and writes the frame that it has split, which is the
// whole batch. The ids of another era need the worker, and the input, again.
func (fl *inFlightWrite) writeAlone(r *result) error {
	lines := len(fl.worker.batch.Lines)
	fl.worker.splitter.MoveTo(&fl.encoded)
	fl.workers.takeBack(fl)
	frame := &fl.encoded.Frame
	fl.options.setOn(frame, 0, lines)
	fl.work.Idle()
	outcome, err := fl.writer.Write(fl.deadline, frame)
	if errors.Is(err, series.ErrEra) {
		if err := fl.workers.equip(fl); err != nil {
			r.failed += frame.Points
			return err
		}
		fl.again = true
		return errParseAgain
	}
	if err != nil {
		r.fail(frame.Points, err)
		return err
	}
	r.accepted, r.copies = frame.Points, outcome.Copies
	return nil
}

// take takes the parsed batch's points out of a database's rate, all or none. What follows a
// first chunk is always taken: its client is slowed instead, as sent again it would come no further.
// Errors: *tenant.RateError, with what becomes of the points.
func (fl *inFlightWrite) take(from *tenant.Account) (result, error) {
	b := &fl.worker.batch
	points := pointsOf(b.Lines)
	if fl.chunk.number > 1 {
		from.Spend(points)
		return result{}, nil
	}
	if err := from.Take(points); err != nil {
		return result{lines: len(b.Lines), failed: points, refused: b.ErrorPoints, skipped: b.SkippedStrings}, err
	}
	return result{}, nil
}

// endDeadline notes that the write is over.
func (fl *inFlightWrite) endDeadline() {
	fl.again = false
	if !fl.deadline.rest() {
		fl.deadline.release()
		fl.deadline = newDeadline(fl.deadline.parent)
	}
}
