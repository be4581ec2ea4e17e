package mqtt

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// request is a WriteRequest of remote write 1.0 for one database.
type request struct {
	database string
	body     []byte
	topics   []string // of each series
}

// encoder makes WriteRequests of samples. It keeps its memory.
type encoder struct{ series, part []byte }

// add appends a sample of a topic as a series of its own: labels = 1, samples = 2.
func (e *encoder) add(r *request, topic string, s *sample) {
	e.series = e.series[:0]
	for _, l := range s.labels {
		e.part = protowire.AppendString(protowire.AppendTag(e.part[:0], 1, protowire.BytesType), l.name)
		e.part = protowire.AppendString(protowire.AppendTag(e.part, 2, protowire.BytesType), l.value)
		e.series = protowire.AppendBytes(protowire.AppendTag(e.series, 1, protowire.BytesType), e.part)
	}
	e.part = binary.LittleEndian.AppendUint64(protowire.AppendTag(e.part[:0], 1, protowire.Fixed64Type), math.Float64bits(s.value))
	e.part = protowire.AppendVarint(protowire.AppendTag(e.part, 2, protowire.VarintType), uint64(s.timeMs))
	e.series = protowire.AppendBytes(protowire.AppendTag(e.series, 2, protowire.BytesType), e.part)
	r.body = protowire.AppendBytes(protowire.AppendTag(r.body, 1, protowire.BytesType), e.series)
	r.topics = append(r.topics, topic)
}

// bytesOf returns about how many bytes samples become.
func bytesOf(all []sample) (bytes int) {
	for i := range all {
		bytes += sampleBytes
		for _, l := range all[i].labels {
			bytes += labelBytes + len(l.name) + len(l.value)
		}
	}
	return bytes
}

// What a sample and a label take beside their texts.
const (
	sampleBytes = 32
	labelBytes  = 12
)
