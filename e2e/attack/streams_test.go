package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// headersOf are those of a call by nobody.
func headersOf(method string, more ...hpack.HeaderField) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method}, {Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, more...) {
		_ = encoder.WriteField(field) // a buffer takes it
	}
	return block.Bytes()
}

// grpcSamples are the beginnings of calls of a method, as they are sent.
func grpcSamples(method string) [][]byte {
	var wire bytes.Buffer
	wire.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&wire, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headersOf(method), EndHeaders: true})
	_ = framer.WriteData(1, false, []byte("\x00\x00\x00\x00\x05hello"))
	_ = framer.WriteWindowUpdate(0, 1<<20)
	_ = framer.WritePing(false, [8]byte{1})
	_ = framer.WriteRSTStream(1, http2.ErrCodeCancel)
	return [][]byte{wire.Bytes()}
}

// streamFlood opens many streams on one connection and sends on each as much of a large message as
// the server takes, but never its end.
type streamFlood struct {
	conn    net.Conn
	framer  *http2.Framer
	mu      sync.Mutex
	changed *sync.Cond
	window  int64            // of the connection
	windows map[uint32]int64 // of the streams
	initial int64
	ended   bool
}

const (
	floodStreams      = 700
	floodMessageBytes = 4 << 20
)

// floodStreamsOf returns what was sent. It ends with the context.
func floodStreamsOf(ctx context.Context, t *testing.T, address, method string) (sentBytes int64) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return 0
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	f := &streamFlood{conn: conn, framer: http2.NewFramer(conn, conn), window: 65535, windows: map[uint32]int64{}, initial: 65535}
	f.changed = sync.NewCond(&f.mu)
	if write(conn, []byte(http2.ClientPreface)) != nil || f.framer.WriteSettings() != nil {
		return 0
	}
	go f.read()
	for n := range uint32(floodStreams) {
		f.mu.Lock()
		f.windows[2*n+1] = f.initial
		f.mu.Unlock()
		if f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: headersOf(method), EndHeaders: true}) != nil {
			return sentBytes
		}
	}
	begin := binary.BigEndian.AppendUint32([]byte{0}, floodMessageBytes)
	for sent := 0; sent < floodMessageBytes-(16<<10); sent += 16 << 10 {
		for n := range uint32(floodStreams) {
			block := make([]byte, 16<<10)
			copy(block, begin)
			if sent > 0 {
				block[0] = 0
			}
			if !f.take(2*n+1, int64(len(block))) {
				continue
			}
			if f.framer.WriteData(2*n+1, false, block) != nil {
				return sentBytes
			}
			sentBytes += int64(len(block))
		}
	}
	<-ctx.Done()
	return sentBytes
}

// take waits for a window, as long as the connection has one to come; a stream that has none
// is left out.
func (f *streamFlood) take(stream uint32, bytes int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	waker := time.AfterFunc(100*time.Millisecond, func() { f.changed.Broadcast() })
	defer waker.Stop()
	for begin := time.Now(); f.window < bytes && !f.ended; {
		if time.Since(begin) > 100*time.Millisecond {
			return false
		}
		f.changed.Wait()
	}
	left, open := f.windows[stream]
	if !open || left < bytes || f.ended {
		return false
	}
	f.window -= bytes
	f.windows[stream] -= bytes
	return true
}

// read takes what the server says of windows and streams.
func (f *streamFlood) read() {
	for {
		frame, err := f.framer.ReadFrame()
		f.mu.Lock()
		switch frame := frame.(type) {
		case *http2.WindowUpdateFrame:
			if frame.StreamID == 0 {
				f.window += int64(frame.Increment)
			} else if _, open := f.windows[frame.StreamID]; open {
				f.windows[frame.StreamID] += int64(frame.Increment)
			}
		case *http2.RSTStreamFrame:
			delete(f.windows, frame.StreamID)
		case *http2.HeadersFrame:
			if frame.StreamEnded() {
				delete(f.windows, frame.StreamID)
			}
		case *http2.SettingsFrame:
			if value, ok := frame.Value(http2.SettingInitialWindowSize); ok {
				for id := range f.windows {
					f.windows[id] += int64(value) - f.initial
				}
				f.initial = int64(value)
			}
		case *http2.GoAwayFrame:
			f.ended = true
		}
		f.ended = f.ended || err != nil && frame == nil
		ended := f.ended
		f.changed.Broadcast()
		f.mu.Unlock()
		if ended {
			return
		}
	}
}
