package rpc

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Field numbers of ExchangeRequest.
const (
	exchangeEnvelopes = 1
	exchangeClockMs   = 2
	exchangeForgets   = 3
	exchangeThins     = 4
	exchangeHours     = 5
	exchangeExemplars = 6
)

// envelopeCopyMax is the largest envelope that is copied into the message: the pieces of
// larger ones cost less than their copies.
const envelopeCopyMax = 1 << 10

// exchangeMessage encodes a request. It refers to the envelopes, which must not change
// any more.
func exchangeMessage(m *nodev1.ExchangeRequest) *transport.Message {
	const headBytesMax = 1 + 10
	size := 4 * headBytesMax
	for _, e := range m.GetEnvelopes() {
		size += headBytesMax
		if len(e) <= envelopeCopyMax {
			size += len(e)
		}
	}
	head, start := make([]byte, 0, size), 0 // from start on the message does not refer to it yet
	message := &transport.Message{}
	if m.ClockMs != nil {
		head = protowire.AppendTag(head, exchangeClockMs, protowire.VarintType)
		head = protowire.AppendVarint(head, protowire.EncodeZigZag(m.GetClockMs()))
	}
	if m.GetForgets() != 0 {
		head = protowire.AppendTag(head, exchangeForgets, protowire.VarintType)
		head = protowire.AppendVarint(head, uint64(m.GetForgets()))
	}
	if m.GetThins() != 0 {
		head = protowire.AppendTag(head, exchangeThins, protowire.VarintType)
		head = protowire.AppendVarint(head, uint64(m.GetThins()))
	}
	if m.GetHours() != 0 {
		head = protowire.AppendTag(head, exchangeHours, protowire.VarintType)
		head = protowire.AppendVarint(head, uint64(m.GetHours()))
	}
	if m.GetExemplars() != 0 {
		head = protowire.AppendTag(head, exchangeExemplars, protowire.VarintType)
		head = protowire.AppendVarint(head, uint64(m.GetExemplars()))
	}
	for _, e := range m.GetEnvelopes() {
		head = protowire.AppendTag(head, exchangeEnvelopes, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(e)))
		if len(e) <= envelopeCopyMax {
			head = append(head, e...)
			continue
		}
		message.Slice = append(message.Slice, mem.SliceBuffer(head[start:len(head):len(head)]), mem.SliceBuffer(e))
		start = len(head)
	}
	if start < len(head) {
		message.Slice = append(message.Slice, mem.SliceBuffer(head[start:]))
	}
	return message
}

// readExchange decodes a message into m; its envelopes point into the message.
// Errors: wire.ErrInvalid.
func readExchange(message []byte, m *nodev1.ExchangeRequest) error {
	// Those before belong to the node; there will be about as many.
	m.Envelopes, m.ClockMs, m.Forgets, m.Thins, m.Hours, m.Exemplars = make([][]byte, 0, len(m.Envelopes)), nil, 0, 0, 0, 0
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 || !number.IsValid() {
			return fmt.Errorf("%w: no field of a message", wire.ErrInvalid)
		}
		message = message[n:]
		switch {
		case number == exchangeEnvelopes && kind == protowire.BytesType:
			var envelope []byte
			if envelope, n = protowire.ConsumeBytes(message); n >= 0 {
				m.Envelopes = append(m.Envelopes, envelope)
			}
		case number == exchangeClockMs && kind == protowire.VarintType:
			var clock uint64
			clock, n = protowire.ConsumeVarint(message)
			m.ClockMs = proto.Int64(protowire.DecodeZigZag(clock))
		case number == exchangeForgets && kind == protowire.VarintType:
			m.Forgets, n = consumeUint32(message)
		case number == exchangeThins && kind == protowire.VarintType:
			m.Thins, n = consumeUint32(message)
		case number == exchangeHours && kind == protowire.VarintType:
			m.Hours, n = consumeUint32(message)
		case number == exchangeExemplars && kind == protowire.VarintType:
			m.Exemplars, n = consumeUint32(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", wire.ErrInvalid, protowire.ParseError(n))
		}
		message = message[n:]
	}
	return nil
}

// consumeUint32 returns the number at the start of a message and how many bytes it takes, as protowire.ConsumeVarint does.
func consumeUint32(message []byte) (v uint32, n int) {
	wide, n := protowire.ConsumeVarint(message)
	return uint32(wide), n
}
