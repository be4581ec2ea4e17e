package ingest

import (
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/parse"
)

// writeChunks writes a body of lines while it arrives, a chunk at a time: whole lines of about
// half a megabyte, so that a body of any size takes that much memory. Between two chunks it has
// neither a worker nor a slot. Lines before an error stay written, as if they had been a
// request of their own; sent again they do no harm.
func (f *front) writeChunks(request *fasthttp.RequestCtx, d *dialect, c *caller, to target, b *body, content []byte) {
	pm := &f.metrics.protocols[d.protocol]
	told := &inFlightWrite{chunk: chunk{more: true}} // of all chunks, for the answer
	all := result{}
	var err error
	for {
		start := time.Now()
		var r result
		told.chunk.number++
		if r, err = f.writeChunk(request, d, c, to, b, content, told); err != nil {
			all.add(r)
			break
		}
		all.add(r)
		pm.seconds.Observe(time.Since(start).Seconds())
		if !told.chunk.more {
			break
		}
		f.slowDown(request, to)
		_ = request.Conn().SetReadDeadline(time.Now().Add(f.options.Limits.HTTPReadTimeout)) // the next chunk has as long as the first
		if content, told.chunk.more, err = b.next(f.base, told.chunk.rest.Consumed); err != nil {
			f.metrics.failures.noteEarly(err)
			break
		}
	}
	pm.bytes.Add(int64(b.sent.bytes))
	to.account.Wrote(all.accepted, all.refused, all.failed, b.sent.bytes)
	if !b.sent.ended {
		leaveBody(request)
	}
	d.answer(request, told, all, err)
	if err != nil {
		setRetryAfter(request, err)
	}
}

// writeChunk writes the lines of a chunk that have ended, and adds to what is told what it says of them.
func (f *front) writeChunk(request *fasthttp.RequestCtx, d *dialect, c *caller, to target, b *body, content []byte, told *inFlightWrite) (r result, err error) {
	defer b.releaseChunk()
	fl, err := f.takeWrite(b)
	if err != nil {
		f.metrics.failures.noteEarly(err)
		return result{}, err
	}
	defer f.workers.rest(fl)
	fl.chunk = told.chunk
	if fl.options, err = writeOptionsOf(request, c, content); err != nil {
		return result{}, err
	}
	r, err = f.placeRequest(request, d, fl, to, content)
	told.chunk.rest, told.chunk.lines, told.chunk.insideLine = fl.chunk.rest, fl.chunk.rest.Lines, fl.chunk.rest.InsideLine
	adopt(&told.nothing, fl.batch(), f.options.Limits.Line.ErrorsMax)
	return r, err
}

// slowDown waits while a database is ahead of its rate, so that its client is slowed, until that hangs up: what it
// has sent by then is little, and is written.
func (f *front) slowDown(request *fasthttp.RequestCtx, to target) {
	if to.account.Ahead() <= 0 {
		return
	}
	ctx := f.base
	if c, ok := request.Conn().(*conn); ok {
		waiting, end := c.whileWaiting(ctx, f.options.Limits.HTTPReadTimeout)
		defer end()
		ctx = waiting
	}
	for ahead := to.account.Ahead(); ahead > 0 && ctx.Err() == nil && !f.draining.Load(); ahead = to.account.Ahead() {
		sleep(ctx, min(ahead, slowStep))
	}
}

// add adds what became of a further chunk.
func (r *result) add(of result) {
	r.lines += of.lines
	r.accepted += of.accepted
	r.refused += of.refused
	r.skipped += of.skipped
	r.failed += of.failed
	r.again += of.again
	if r.againWhy == nil {
		r.againWhy = of.againWhy
	}
	r.exemplars += of.exemplars
	if of.copies > 0 && (r.copies == 0 || of.copies < r.copies) {
		r.copies = of.copies
	}
}

// adopt adds the errors of a batch whose body goes.
func adopt(told, of *parse.Batch, errorsMax int) {
	told.ErrorsTotal += of.ErrorsTotal
	told.ErrorPoints += of.ErrorPoints
	for _, e := range of.Errors[:min(len(of.Errors), errorsMax-len(told.Errors))] {
		e.Text = slices.Clone(e.Text[:min(len(e.Text), parse.ExcerptBytesMax+1)])
		told.Errors = append(told.Errors, e)
	}
}
