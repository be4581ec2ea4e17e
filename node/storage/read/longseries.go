package read

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

const (
	// overlayPointBytes is what a point of the overlay takes, its copy in order, and its place in that order.
	overlayPointBytes = 2*16 + 4
	// mergedPointBytes is what it takes besides where blocks of segments are merged with it, at most.
	mergedPointBytes = 16 + 4
	// longBytesMin is what is charged of one series. Readers of short ones, which are all but a few, hold less.
	longBytesMin = 512 << 10
)

// Of a chain of aheadPagesMin pages or more all is charged when so many points of it have been decoded.
const (
	aheadPagesMin  = 64
	aheadPointsMin = 1024
)

// chargeAhead charges what the chain takes, of which so many bytes have been decoded: the other pages have about as many points to
// a byte. A series that waits does so before it holds much: those of all requests would wait for each other.
func (r *Reader) chargeAhead(decodedBytes, pointBytes int) error {
	points := r.overlay.Len()
	if len(r.chain) < aheadPagesMin || decodedBytes == len(r.payloads) {
		return r.charge(points, pointBytes)
	}
	if points < aheadPointsMin || r.isCharged(points, pointBytes) {
		return nil
	}
	const spare = 16 // a part of them, beside the room that decoding one page wants
	expected := points * len(r.payloads) / decodedBytes
	expected += expected/spare + 8*len(r.payloads)/len(r.chain)
	if r.CheckHeld(expected) != nil {
		expected = points
	}
	err := r.charge(expected, pointBytes)
	if errors.As(err, new(*scan.LimitError)) && expected > points {
		expected = points // it may be fewer
		err = r.charge(points, pointBytes)
	}
	if err == nil && r.inTurn {
		r.overlay.Reserve(expected)
	}
	return err
}

// charge charges the series that is read to the account, if it is a long one, unless as much is charged already. It may wait for
// others, so the lease is parked. Errors: those of the account, and of the context.
func (r *Reader) charge(points, pointBytes int) error {
	held := r.held(points, pointBytes)
	if r.turn == nil || held < longBytesMin || r.isCharged(points, pointBytes) {
		return nil
	}
	return r.chargeBytes(held)
}

// chargeBytes is charge for so many bytes in all.
func (r *Reader) chargeBytes(held int64) error {
	if err := r.enterLong(); err != nil {
		return err
	}
	if err := r.account.HoldInTime(r.ctx, held); err != nil {
		return err
	}
	processor.Of(r.ctx).Heavy() // also where it has waited without a slot
	r.charged = held
	return nil
}

// held returns the bytes that the copied pages and so many points take.
func (r *Reader) held(points, pointBytes int) int64 {
	return int64(len(r.payloads)) + int64(pointBytes)*int64(points)
}

// isCharged reports whether so many points, beside the copied pages, are charged already.
func (r *Reader) isCharged(points, pointBytes int) bool {
	return r.held(points, pointBytes) <= r.charged
}

// enterLong waits for the reader's turn to have a long series.
func (r *Reader) enterLong() error {
	if r.inTurn {
		return nil
	}
	select {
	case r.turn <- struct{}{}:
	default:
		processor.Of(r.ctx).Idle()
		select {
		case r.turn <- struct{}{}:
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
	r.inTurn = true
	return nil
}

// leaveLong releases what a long series took: memory, charge and turn.
func (r *Reader) leaveLong() {
	if !r.inTurn {
		return
	}
	r.overlay, r.merged, r.scratch, r.order, r.payloads = codec.Points{}, codec.Points{}, codec.Points{}, nil, nil
	r.charged = 0
	r.account.Close()
	r.inTurn = false
	<-r.turn
}

// CheckHeld refuses so many points beside the pages that were copied. Errors: a *scan.LimitError.
func (r *Reader) CheckHeld(points int) error {
	held := int64(len(r.payloads)) + overlayPointBytes*int64(points)
	if r.bytesMax > 0 && held > r.bytesMax {
		return &scan.LimitError{What: "bytes", Limit: r.bytesMax}
	}
	return nil
}
