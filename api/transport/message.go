package transport

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Message is a message that its sender has encoded and its receiver decodes: for
// streams whose messages are so many that protobuf's own objects cost too much. Its
// bytes are those that protobuf would send.
type Message struct {
	// Slice is what is sent, without a copy; gRPC frees it. It is not set by receiving.
	Slice mem.BufferSlice
	// Bytes is what was received. It stays as it is until Free.
	Bytes []byte
	// Keep has what is received put into memory of its own, that no other message will
	// use, for receivers that keep parts of it. Free does nothing then.
	Keep bool

	buffer mem.Buffer
	freed  func()
}

// Received sets what a Receiver has received; free is called by Free.
func (m *Message) Received(content *[]byte, free func()) {
	m.Bytes, m.freed = *content, free
}

// Free releases the received bytes. Without it they are left to the collector.
func (m *Message) Free() {
	if m.buffer != nil {
		m.buffer.Free()
	}
	if m.freed != nil {
		m.freed()
	}
	m.buffer, m.freed, m.Bytes = nil, nil, nil
}

// codec takes a *Message as it is, and any other message as gRPC does.
type codec struct {
	encoding.CodecV2
	buffers *Buffers
}

func newCodec(buffers *Buffers) encoding.CodecV2 {
	return codec{encoding.GetCodecV2(proto.Name), buffers}
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*Message); ok {
		return m.Slice, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if m.Keep {
		m.Bytes = data.Materialize()
		return nil
	}
	m.buffer = data.MaterializeToBuffer(c.buffers)
	m.Bytes = m.buffer.ReadOnlyData()
	return nil
}
