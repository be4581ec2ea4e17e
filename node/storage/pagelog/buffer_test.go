package pagelog

import (
	"bytes"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// heldWrites is a file system that holds writes of pages up until it is let go.
type heldWrites struct {
	mu      sync.Mutex
	held    bool
	entered chan struct{}
	goOn    chan struct{}
}

func (h *heldWrites) rule(op vfs.Op) error {
	h.mu.Lock()
	held := h.held
	h.mu.Unlock()
	if !held || op.Kind != vfs.OpWrite {
		return nil
	}
	select {
	case h.entered <- struct{}{}:
	case <-h.goOn:
	}
	<-h.goOn
	return nil
}

func (h *heldWrites) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held, h.entered, h.goOn = true, make(chan struct{}), make(chan struct{})
}

// TestAppendWaitsForNoDisk fills buffers while a write is held up. What is in them can be
// read meanwhile, and is all there after the next start.
func TestAppendWaitsForNoDisk(t *testing.T) {
	held := &heldWrites{}
	memory := vfs.NewMemFS()
	options := small(vfs.Faults(memory, held.rule))
	options.ExtentBytes, options.GenerationBytes = 64<<10, 1<<20
	l, err := Open(options, State{}, nil)
	must(t, err)
	held.hold()
	var refs []Ref
	appendUntil := func(full int32) {
		for l.full.Load() < full {
			ref, err := l.Append(1, uint32(len(refs)), 0, payloadOf(len(refs), 100))
			must(t, err)
			refs = append(refs, ref)
		}
	}
	appendUntil(1)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		l.WriteFull()
	}()
	<-held.entered
	appendUntil(BuffersMax - 1)
	pin := l.Pin()
	read := func() {
		t.Helper()
		for i, ref := range refs {
			page, err := pin.Read(ref, nil)
			if err != nil || page.ID != uint32(i) || !bytes.Equal(page.Payload, payloadOf(i, 100)) {
				t.Fatalf("page %d is %+v, %v", i, page, err)
			}
		}
	}
	read()
	close(held.goOn)
	<-wrote
	if n := l.full.Load(); n != 0 {
		t.Fatalf("%d buffers are full after WriteFull", n)
	}
	read()
	must(t, pin.Close())
	state, err := l.Sync()
	must(t, err)
	must(t, l.Close())
	found := 0
	l, err = Open(options, state, func(Ref, uint16, uint32) { found++ })
	must(t, err)
	defer l.Close()
	if found != len(refs) {
		t.Fatalf("%d pages after a start, want %d", found, len(refs))
	}
}

// TestBuffersAreBounded: who appends when all buffers are full writes one.
func TestBuffersAreBounded(t *testing.T) {
	held := &heldWrites{}
	options := small(vfs.Faults(vfs.NewMemFS(), held.rule))
	options.ExtentBytes, options.GenerationBytes = 64<<10, 1<<20
	l, err := Open(options, State{}, nil)
	must(t, err)
	defer l.Close()
	held.hold()
	done := make(chan struct{})
	const pages = 2 * BuffersMax * BufferBytesMin / 100
	go func() {
		defer close(done)
		for n := range pages {
			if _, err := l.Append(1, uint32(n), 0, payloadOf(n, 100)); err != nil {
				t.Error(err)
			}
		}
	}()
	<-held.entered
	if bytes := l.Stats().Bytes; bytes > BuffersMax*BufferBytesMin+extentHeaderBytes {
		t.Errorf("%d bytes are buffered", bytes)
	}
	close(held.goOn)
	<-done
}

// TestPinFrom: older generations are given up without the pin.
func TestPinFrom(t *testing.T) {
	l, err := Open(small(vfs.NewMemFS()), State{}, nil)
	must(t, err)
	defer l.Close()
	old, err := l.Append(1, 1, 0, payloadOf(1, 10))
	must(t, err)
	first, err := l.Roll()
	must(t, err)
	young, err := l.Append(1, 2, 0, payloadOf(2, 10))
	must(t, err)
	pin := l.PinFrom(first + 1)
	defer pin.Close()
	if _, err := pin.Read(young, nil); err != nil {
		t.Error(err)
	}
	if page, err := pin.Read(old, nil); err == nil {
		t.Errorf("%+v of a generation that is not held", page)
	}
	l.mu.Lock()
	g := l.mu.generations[0]
	l.mu.Unlock()
	must(t, l.Drop(first))
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.holders != 0 {
		t.Errorf("the dropped generation has %d holders", g.holders)
	}
}

// TestWrittenPagesAreReadWithoutTheLock, which appends hold.
func TestWrittenPagesAreReadWithoutTheLock(t *testing.T) {
	l, err := Open(small(vfs.NewMemFS()), State{}, nil)
	must(t, err)
	defer l.Close()
	for range 3 {
		_, err = l.Roll()
		must(t, err)
		ref, err := l.Append(1, 7, 0, payloadOf(1, 10))
		must(t, err)
		must(t, l.Flush())
		pin := l.Pin()
		number, _ := l.End()
		l.mu.Lock()
		current := l.Current()
		page, err := pin.Read(ref, nil)
		l.mu.Unlock()
		if err != nil || page.ID != 7 || current != number || current%Slots != ref.Slot() {
			t.Errorf("page %+v of generation %d, want %d, %v", page, current, number, err)
		}
		must(t, pin.Close())
	}
}
