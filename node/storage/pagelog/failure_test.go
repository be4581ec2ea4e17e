package pagelog

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func TestReadRefusesWhatIsNoPage(t *testing.T) {
	l, err := Open(small(vfs.NewMemFS()), State{}, nil)
	must(t, err)
	defer l.Close()
	ref, err := l.Append(1, 2, 0, payloadOf(1, 100))
	must(t, err)
	pin := l.Pin()
	defer pin.Close()
	for range 2 { // from the buffer, then from the file
		for _, bad := range []Ref{0, ref + 1, ref + 1000, ref - 1, ref + 2<<refOffsetBits, refOffsetMask, 1<<refOffsetBits | refOffsetMask} {
			if page, err := pin.Read(bad, nil); err == nil {
				t.Errorf("reference %#x gave %+v", bad, page)
			}
		}
		must(t, l.Flush())
	}
	for _, bad := range []int{0, PayloadBytesMax + 1} {
		if _, err := l.Append(1, 2, 0, make([]byte, bad)); !errors.Is(err, ErrPayload) {
			t.Errorf("a payload of %d bytes gave %v", bad, err)
		}
	}
	if err := pin.Each(17, nil); !errors.Is(err, ErrNoGeneration) {
		t.Errorf("a generation that is not there gave %v", err)
	}
}

func TestFullDiskComesBack(t *testing.T) {
	fsys := vfs.NewMemFS()
	l, err := Open(small(fsys), State{}, nil)
	must(t, err)
	defer l.Close()
	fsys.SetCapacity(20 << 10)
	var space *SpaceError
	n := 0
	for ; space == nil && n < 1000; n++ {
		if _, err := l.Append(0, uint32(n), 0, payloadOf(n, 500)); err != nil && (!errors.As(err, &space) || !vfs.IsNoSpace(err)) {
			t.Fatal(err)
		}
	}
	if space == nil {
		t.Fatal("the disk was never full")
	}
	_, err = l.Sync()
	must(t, err)
	fsys.SetCapacity(1 << 30)
	_, err = l.Append(0, 0, 0, payloadOf(0, 500))
	must(t, err)
}

func TestBrokenKeepsReading(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpSync} {
		var mu sync.Mutex
		failing := false
		fsys := vfs.Faults(vfs.NewMemFS(), func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if failing && op.Kind == kind {
				return syscall.EIO
			}
			return nil
		})
		l, err := Open(small(fsys), State{}, nil)
		must(t, err)
		ref, err := l.Append(1, 2, 0, []byte("page"))
		must(t, err)
		mu.Lock()
		failing = true
		mu.Unlock()
		if _, err := l.Sync(); !errors.Is(err, ErrBroken) || !errors.Is(err, syscall.EIO) {
			t.Errorf("sync gave %v", err)
		}
		mu.Lock()
		failing = false
		mu.Unlock()
		if _, err := l.Append(1, 2, 0, []byte("page")); !errors.Is(err, ErrBroken) {
			t.Errorf("append gave %v", err)
		}
		if _, err := l.Roll(); !errors.Is(err, ErrBroken) {
			t.Errorf("roll gave %v", err)
		}
		pin := l.Pin()
		if page, err := pin.Read(ref, nil); err != nil || string(page.Payload) != "page" {
			t.Errorf("read gave %+v, %v", page, err)
		}
		must(t, pin.Close())
		_ = l.Close()
	}
}

func TestFailpoints(t *testing.T) {
	for _, name := range Failpoints() {
		set, err := failpoint.Parse(name+"=error@2", Failpoints())
		must(t, err)
		fsys := vfs.NewMemFS()
		options := small(fsys)
		options.Failpoints = set
		durable, now := newModel(), newModel()
		var state State
		func() {
			l, err := Open(options, State{}, nil)
			must(t, err)
			defer l.Close()
			for n := range 200 {
				p := Page{ID: uint32(n), Payload: payloadOf(n, 300)}
				ref, err := l.Append(0, p.ID, 0, p.Payload)
				if err != nil {
					return
				}
				now.pages[now.current()] = append(now.pages[now.current()], entry{ref, now.current(), p})
				if n%30 != 29 {
					continue
				}
				s, err := l.Sync()
				if err != nil {
					return
				}
				state, durable = s, now.clone()
				if _, err := l.Roll(); err != nil {
					return
				}
				now.generations = append(now.generations, now.current()+1)
				if len(state.Generations) > 2 {
					state.Generations = state.Generations[1:]
					durable.generations = durable.generations[1:]
					now.generations = now.generations[1:]
					if l.Drop(state.Generations[0].Number-1) != nil {
						return
					}
				}
			}
		}()
		for range 3 { // a failed Open leaves a folder that the next one can open
			l, err := durable.opened(options, state)
			if err != nil {
				if !errors.Is(err, failpoint.ErrHit) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err := durable.check(l); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			must(t, l.Close())
			break
		}
		if set.Hits(name) == 0 {
			t.Errorf("%s was never passed", name)
		}
	}
}
