package wire

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/series"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Field numbers of WriteResponse and FrameResult.
const (
	responseResults = 1

	resultSequence = 1
	resultParts    = 2
	resultError    = 3
	resultCopies   = 4
)

// AppendResult appends the answer to a frame to a response: an error, or what became of
// its parts. Errors: those of protobuf's encoder.
func AppendResult(b []byte, sequence uint64, outcomes []PartOutcome, err error) ([]byte, error) {
	if copies := allWritten(outcomes); err == nil && copies > 0 {
		size := protowire.SizeTag(resultSequence) + protowire.SizeVarint(sequence) +
			protowire.SizeTag(resultCopies) + protowire.SizeVarint(uint64(copies))
		b = protowire.AppendTag(b, responseResults, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(size))
		b = protowire.AppendTag(b, resultSequence, protowire.VarintType)
		b = protowire.AppendVarint(b, sequence)
		b = protowire.AppendTag(b, resultCopies, protowire.VarintType)
		return protowire.AppendVarint(b, uint64(copies)), nil
	}
	m := &nodev1.FrameResult{Sequence: sequence}
	if err != nil {
		m.Error = FromError(err)
	} else {
		m.Results = FromPartOutcomes(outcomes)
	}
	b = protowire.AppendTag(b, responseResults, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(proto.Size(m)))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
}

// allWritten returns the least number of copies when all parts were written and there is
// nothing else to say of any; else 0.
func allWritten(outcomes []PartOutcome) (copies uint32) {
	for i := range outcomes {
		o := &outcomes[i]
		if o.Err != nil || len(o.Refused) > 0 || len(o.Defined) > 0 || o.Level != series.LevelMajority || o.Missing > 0 || o.Copies < 1 || o.Copies > math.MaxUint16 {
			return 0
		}
		if c := uint32(o.Copies); i == 0 || c < copies {
			copies = c
		}
	}
	return copies
}

// Result is the answer to a frame.
type Result struct {
	Sequence uint64
	// Copies, if it is not 0, means that all parts were written, in at least so many
	// copies, and that there is nothing else to say.
	Copies int

	message []byte
}

// Outcomes returns what became of the frame's parts, whose shards are given in their
// order; nil when Copies says all. Errors: the frame's, and ErrInvalid when the message
// does not fit the frame.
func (r *Result) Outcomes(shards []uint16) ([]PartOutcome, error) {
	if r.Copies > 0 {
		return nil, nil
	}
	var m nodev1.FrameResult
	if err := proto.Unmarshal(r.message, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if m.GetError() != nil {
		return nil, ToError(m.GetError())
	}
	return ToPartOutcomes(m.GetResults(), shards)
}

// NextResult takes the first answer off a response. ok is false at the end. Errors:
// ErrInvalid.
func NextResult(response []byte) (r Result, rest []byte, ok bool, err error) {
	for len(response) > 0 {
		var v field
		n, err := v.take(response)
		if err != nil {
			return r, nil, false, err
		}
		response = response[n:]
		if v.number == responseResults && v.kind == protowire.BytesType {
			err = r.read(v.bytes)
			return r, response, err == nil, err
		}
	}
	return r, nil, false, nil
}

func (r *Result) read(message []byte) error {
	*r = Result{message: message}
	others := false
	for len(message) > 0 {
		var v field
		n, err := v.take(message)
		if err != nil {
			return err
		}
		message = message[n:]
		switch {
		case v.number == resultSequence && v.kind == protowire.VarintType:
			r.Sequence = v.value
		case v.number == resultCopies && v.kind == protowire.VarintType:
			r.Copies = int(min(v.value, math.MaxUint16+1))
		case v.number == resultParts || v.number == resultError:
			others = true
		}
	}
	if r.Copies > math.MaxUint16 || r.Copies > 0 && others {
		return fmt.Errorf("%w: an answer with %d copies, and with more: %t", ErrInvalid, r.Copies, others)
	}
	return nil
}
