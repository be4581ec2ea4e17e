package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// messageSource is a stream below gRPC's messages. grpc.ServerTransportStreamFromContext
// returns one, whose type is internal: gRPC itself has no hook between the length of a
// message and its bytes. A test fails should these methods go.
type messageSource interface {
	ReadMessageHeader(header []byte) error
	Read(bytes int) (mem.BufferSlice, error)
	RecvCompress() string
}

const (
	messageHeadBytes = 5 // a flag for compression, and the length
	// receiveBytes is read, and asked for from the sender, at once.
	receiveBytes = 256 << 10
	// Each frame costs some sixty bytes beside its content. More frames than framesMax in
	// one turn must have frameBytesMin on average.
	framesMax     = 1024
	frameBytesMin = 64
	// bytesFirst is what a small message is decompressed into.
	bytesFirst = 512
)

// Receiver reads the messages of one call after it has asked whether there is room for them.
// One goroutine uses it.
type Receiver struct {
	Buffers  *Buffers      // nil: each message is put into memory of its own
	BytesMax int           // of a message
	Timeout  time.Duration // for the bytes of one message, from its length on
	// Reserve is asked before so many bytes more are held; its error is returned.
	Reserve func(bytes int) error
}

// Receive reads the next message of the call that ctx is of. The buffer belongs to the
// caller, who returns it to Buffers, if these are set; its bytes were reserved. Errors: io.EOF behind the
// last message, those of Reserve, and statuses.
func (r *Receiver) Receive(ctx context.Context) (*[]byte, error) {
	source, ok := grpc.ServerTransportStreamFromContext(ctx).(messageSource)
	if !ok {
		return nil, status.Error(codes.Internal, "BUG: this gRPC does not show the lengths of messages")
	}
	var head [messageHeadBytes]byte
	if err := source.ReadMessageHeader(head[:]); err != nil {
		return nil, statusOf(err)
	}
	length := binary.BigEndian.Uint32(head[1:])
	if uint64(length) > uint64(r.BytesMax) {
		return nil, status.Errorf(codes.ResourceExhausted, "the message has %d bytes, at most %d are taken", length, r.BytesMax)
	}
	if err := r.Reserve(int(length)); err != nil {
		return nil, err
	}
	buffer, err := r.read(source, int(length))
	if err != nil || head[0] == 0 {
		return buffer, err
	}
	if r.Buffers != nil {
		defer r.Buffers.Put(buffer)
	}
	return r.decompress(*buffer, source.RecvCompress())
}

// statusOf returns an error of a stream as a handler returns it.
func statusOf(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return status.Error(codes.Internal, "the message is cut short")
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return status.Convert(err).Err()
}

// read reads the bytes of a message. What fits into the stream's window is waited for as long
// as the call lasts.
func (r *Receiver) read(source messageSource, length int) (*[]byte, error) {
	buffer := r.get(length)
	if length <= ServerStreamWindowBytes {
		return buffer, r.fill(source, *buffer)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.fill(source, *buffer) }()
	timer := time.NewTimer(r.Timeout)
	defer timer.Stop()
	select {
	case err := <-ended:
		return buffer, err
	case <-timer.C:
		// The handler returns and ends the stream, and with it the goroutine; the buffer is
		// left to the collector.
		return nil, status.Errorf(codes.DeadlineExceeded, "the message did not arrive within %v", r.Timeout)
	}
}

// get returns a buffer of the length.
func (r *Receiver) get(length int) *[]byte {
	if r.Buffers == nil {
		b := make([]byte, length)
		return &b
	}
	return r.Buffers.Get(length)
}

func (r *Receiver) fill(source messageSource, into []byte) error {
	for len(into) > 0 {
		n := min(len(into), receiveBytes)
		frames, err := source.Read(n)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return statusOf(err)
		}
		frames.CopyTo(into[:n])
		into = into[n:]
		count := len(frames)
		frames.Free()
		if count > framesMax && n/count < frameBytesMin {
			return status.Errorf(codes.ResourceExhausted, "the message comes in %d frames of %d bytes; send larger ones", count, n/count)
		}
	}
	return nil
}

// decompress returns the content of a compressed message.
func (r *Receiver) decompress(compressed []byte, name string) (*[]byte, error) {
	compressor := encoding.GetCompressor(name)
	if compressor == nil {
		return nil, status.Errorf(codes.Unimplemented, "the message is compressed by %q, which is not known", name)
	}
	source, err := compressor.Decompress(bytes.NewReader(compressed))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the message cannot be decompressed: %v", err)
	}
	content := make([]byte, 0, min(4*len(compressed)+bytesFirst, r.BytesMax+1))
	if err := r.Reserve(cap(content)); err != nil {
		return nil, err
	}
	for {
		n, err := source.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		switch {
		case len(content) > r.BytesMax:
			return nil, status.Errorf(codes.ResourceExhausted, "the message has more than %d bytes when it is decompressed", r.BytesMax)
		case errors.Is(err, io.EOF):
			return &content, nil
		case err != nil:
			return nil, status.Errorf(codes.Internal, "the message cannot be decompressed: %v", err)
		}
		if len(content) < cap(content) {
			continue
		}
		capacity := min(2*cap(content), r.BytesMax+1)
		if err := r.Reserve(capacity - cap(content)); err != nil {
			return nil, err
		}
		content = append(make([]byte, 0, capacity), content...)
	}
}
