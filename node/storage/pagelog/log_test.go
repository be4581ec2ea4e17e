package pagelog

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// small options make borders of buffers, extents and generations near.
func small(fsys vfs.FS) Options {
	return Options{FS: fsys, Dir: "pages", ExtentBytes: 16 << 10, GenerationBytes: 64 << 10, BufferBytes: BufferBytesMin}
}

// entry is a page as the test knows it.
type entry struct {
	ref        Ref
	generation uint32
	page       Page
}

func payloadOf(n, length int) []byte { return bytes.Repeat([]byte{byte(n*31 + 7)}, length) }

func samePage(a, b Page) bool {
	return a.Shard == b.Shard && a.ID == b.ID && a.Previous == b.Previous && bytes.Equal(a.Payload, b.Payload)
}

// model is the oracle: a list of generations, each a list of pages.
type model struct {
	generations []uint32
	pages       map[uint32][]entry
}

func newModel() *model { return &model{generations: []uint32{1}, pages: map[uint32][]entry{}} }

func (m *model) clone() *model {
	c := &model{generations: slices.Clone(m.generations), pages: map[uint32][]entry{}}
	for g, pages := range m.pages {
		c.pages[g] = slices.Clone(pages)
	}
	return c
}

func (m *model) current() uint32 { return m.generations[len(m.generations)-1] }

// check compares all that a log returns with the model.
func (m *model) check(l *Log) error {
	if got := l.Generations(); !slices.Equal(got, m.generations) {
		return fmt.Errorf("generations %v, want %v", got, m.generations)
	}
	pin := l.Pin()
	defer pin.Close()
	dst := make([]byte, 0, ReadBytesMax)
	for _, g := range m.generations {
		i := 0
		for _, want := range m.pages[g] {
			got, err := pin.Read(want.ref, dst)
			if err != nil || !samePage(got, want.page) {
				return fmt.Errorf("page %#x is %+v, %v", want.ref, got, err)
			}
		}
		err := pin.Each(g, func(ref Ref, page Page) error {
			if i >= len(m.pages[g]) || ref != m.pages[g][i].ref || !samePage(page, m.pages[g][i].page) {
				return fmt.Errorf("page %d of generation %d is %#x", i, g, ref)
			}
			i++
			return nil
		})
		if err != nil {
			return err
		}
		if i != len(m.pages[g]) {
			return fmt.Errorf("generation %d has %d pages, want %d", g, i, len(m.pages[g]))
		}
	}
	if s := l.Stats(); s.Corruptions != 0 || s.BrokenErr != nil {
		return fmt.Errorf("stats %+v", s)
	}
	return nil
}

// opened opens a log and checks what it visits.
func (m *model) opened(options Options, state State) (*Log, error) {
	type seen struct {
		ref   Ref
		shard uint16
		id    uint32
	}
	var got, want []seen
	l, err := Open(options, state, func(ref Ref, shard uint16, id uint32) { got = append(got, seen{ref, shard, id}) })
	if err != nil {
		return nil, err
	}
	for _, g := range m.generations {
		for _, e := range m.pages[g] {
			want = append(want, seen{e.ref, e.page.Shard, e.page.ID})
		}
	}
	if !slices.Equal(got, want) {
		return nil, errors.Join(fmt.Errorf("open visited %d pages, want %d", len(got), len(want)), l.Close())
	}
	return l, nil
}

// TestAgainstModel runs random operations with power cuts: what Open returns for a
// State is what the log was when Sync gave it.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := vfs.NewMemFS()
		options := small(fsys)
		l, err := Open(options, State{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { l.Close() }()
		now, durable := newModel(), newModel()
		var state State
		var held *Pin
		var heldModel *model
		n := 0
		fail := func(t *rapid.T, err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				length := rapid.SampledFrom([]int{1, 7, 8, 60, 128, 1000, 4096}).Draw(t, "length")
				for range rapid.IntRange(1, 20).Draw(t, "pages") {
					n++
					p := Page{Shard: uint16(n), ID: uint32(n * n), Previous: Ref(n * 7), Payload: payloadOf(n, length)}
					ref, err := l.Append(p.Shard, p.ID, p.Previous, p.Payload)
					if errors.Is(err, ErrGenerationFull) {
						if len(now.pages[now.current()]) < 12 {
							t.Fatalf("full after %d pages", len(now.pages[now.current()]))
						}
						return
					}
					fail(t, err)
					now.pages[now.current()] = append(now.pages[now.current()], entry{ref, now.current(), p})
				}
			},
			"flush": func(t *rapid.T) { fail(t, l.Flush()) },
			"sync": func(t *rapid.T) {
				state, err = l.Sync()
				fail(t, err)
				durable = now.clone()
			},
			"roll": func(t *rapid.T) {
				ended, err := l.Roll()
				if errors.Is(err, ErrTooManyGenerations) {
					if len(now.generations) < 8 {
						t.Fatal("too few to be too many")
					}
					return
				}
				fail(t, err)
				if ended != now.current() {
					t.Fatalf("generation %d ended, want %d", ended, now.current())
				}
				now.generations = append(now.generations, ended+1)
			},
			"drop": func(t *rapid.T) {
				// Only what the durable state does not have may go.
				state, err = l.Sync()
				fail(t, err)
				oldest := now.generations[0]
				if len(now.generations) == 1 {
					if err := l.Drop(oldest); !errors.Is(err, ErrNoGeneration) {
						t.Fatalf("the current generation was dropped: %v", err)
					}
				} else {
					state.Generations = state.Generations[1:]
					now.generations = now.generations[1:]
					delete(now.pages, oldest)
					fail(t, l.Drop(oldest))
				}
				durable = now.clone()
			},
			"pin": func(*rapid.T) {
				if held != nil {
					held.Close()
				}
				held, heldModel = l.Pin(), now.clone()
			},
			"read pinned": func(t *rapid.T) {
				if held == nil {
					return
				}
				for _, pages := range heldModel.pages {
					for _, want := range pages {
						if got, err := held.Read(want.ref, nil); err != nil || !samePage(got, want.page) {
							t.Fatalf("pinned page %#x is %+v, %v", want.ref, got, err)
						}
					}
				}
			},
			"power cut": func(t *rapid.T) {
				if held != nil {
					fail(t, held.Close())
					held = nil
				}
				percent := rapid.SampledFrom([]int{0, 50, 100})
				clone := fsys.CrashClone(vfs.CrashOptions{
					Seed: rapid.Uint64().Draw(t, "seed"), BlockPercent: percent.Draw(t, "blocks"),
					NamePercent: percent.Draw(t, "names"), ReorderNames: rapid.Bool().Draw(t, "disorder"),
				})
				fail(t, l.Close())
				fsys, options.FS = clone, clone
				now = durable.clone()
				l, err = now.opened(options, state)
				fail(t, err)
				if len(state.Generations) == 0 {
					return
				}
			},
			"close": func(t *rapid.T) {
				if held != nil {
					fail(t, held.Close())
					held = nil
				}
				fail(t, l.Close())
				now = durable.clone()
				l, err = now.opened(options, state)
				fail(t, err)
			},
			"": func(t *rapid.T) { fail(t, now.check(l)) },
		})
		if held != nil {
			fail(t, held.Close())
		}
	})
}

func TestConcurrentAppendAndRead(t *testing.T) {
	options := small(vfs.NewMemFS())
	options.GenerationBytes = 4 << 20
	l, err := Open(options, State{}, nil)
	must(t, err)
	const writers, pages = 4, 3000
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			pin := l.Pin()
			defer pin.Close()
			var refs []Ref
			var dst []byte
			for n := range pages {
				var previous Ref
				if n > 0 {
					previous = refs[n-1]
				}
				ref, err := l.Append(uint16(w), uint32(n), previous, payloadOf(n+w, 1+n%250))
				if err != nil {
					t.Error(err)
					return
				}
				refs = append(refs, ref)
				for _, at := range []int{n, n / 2} {
					got, err := pin.Read(refs[at], dst)
					if err != nil || got.ID != uint32(at) || got.Shard != uint16(w) || !bytes.Equal(got.Payload, payloadOf(at+w, 1+at%250)) {
						t.Errorf("page %d is %+v, %v", at, got, err)
						return
					}
					dst = got.Payload
				}
			}
		})
	}
	group.Go(func() {
		for range 20 {
			if _, err := l.Sync(); err != nil {
				t.Error(err)
			}
			pin := l.Pin()
			if err := pin.Each(1, func(Ref, Page) error { return nil }); err != nil {
				t.Error(err)
			}
			pin.Close()
		}
	})
	group.Wait()
	if s := l.Stats(); s.Pages != writers*pages || s.Corruptions != 0 {
		t.Errorf("stats %+v", s)
	}
	must(t, l.Close())
}

func TestFlippedBits(t *testing.T) {
	fsys := vfs.NewMemFS()
	options := small(fsys)
	l, err := Open(options, State{}, nil)
	must(t, err)
	var want []entry
	for n := range 250 {
		p := Page{Shard: uint16(n), ID: uint32(n), Payload: payloadOf(n, 1+n*37%400)}
		ref, err := l.Append(p.Shard, p.ID, p.Previous, p.Payload)
		must(t, err)
		want = append(want, entry{ref, 1, p})
	}
	state, err := l.Sync()
	must(t, err)
	must(t, l.Close())
	names, err := fsys.List("pages")
	must(t, err)
	rapid.Check(t, func(t *rapid.T) {
		clone := fsys.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
		index := rapid.IntRange(0, len(names)-1).Draw(t, "file")
		f, err := clone.OpenReadWrite(path.Join("pages", names[index]))
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		offset := rapid.Int64Range(0, size-1).Draw(t, "offset")
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, offset); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := f.WriteAt(b, offset); err != nil {
			t.Fatal(err)
		}
		broken := options
		broken.FS = clone
		var reports []*CorruptError
		broken.OnCorrupt = func(e *CorruptError) { reports = append(reports, e) }
		var got []Ref
		l, err := Open(broken, state, func(ref Ref, _ uint16, _ uint32) { got = append(got, ref) })
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		pin := l.Pin()
		defer pin.Close()
		flipped := int64(index)*options.ExtentBytes + offset
		i := 0
		for _, w := range want {
			if i < len(got) && got[i] == w.ref {
				i++
				page, err := pin.Read(w.ref, nil)
				if err != nil || !samePage(page, w.page) {
					t.Fatalf("page %#x is %+v, %v", w.ref, page, err)
				}
				continue
			}
			end := w.ref.offset() + int64(pageBytes(len(w.page.Payload)))
			if flipped < w.ref.offset() || flipped >= end {
				t.Fatalf("page %#x is missing, the flip was at %d", w.ref, flipped)
			}
			if len(reports) != 1 || flipped < int64(index)*options.ExtentBytes+reports[0].Offset || reports[0].Offset+reports[0].Length <= offset {
				t.Fatalf("a page is missing and the reports are %v", reports)
			}
			var corrupt *CorruptError
			if _, err := pin.Read(w.ref, nil); !errors.As(err, &corrupt) {
				t.Fatalf("the damaged page gave %v", err)
			}
		}
		if i != len(got) {
			t.Fatalf("%d pages, %d of them known", len(got), i)
		}
	})
}

// TestCloseGivesBack: a page log that was closed takes the room of its pages alone, and goes on
// as it was, wherever the disk failed or the power went meanwhile.
func TestCloseGivesBack(t *testing.T) {
	for fault := range 20 {
		m := vfs.NewMemFS()
		var left atomic.Int64 // operations of the disk until one fails; extents are made in the background
		options := small(m)
		options.FS = vfs.Faults(m, func(vfs.Op) error {
			if left.Add(-1) == 0 {
				return syscall.EIO
			}
			return nil
		})
		l, err := Open(options, State{}, nil)
		must(t, err)
		var want []Ref
		for n := range 30 {
			ref, err := l.Append(1, uint32(n), 0, payloadOf(n, 100))
			must(t, err)
			want = append(want, ref)
		}
		state, err := l.Sync()
		must(t, err)
		left.Store(int64(fault))
		err = l.Close()
		done := fault == 0 || left.Load() > 0
		left.Store(0)
		free, freeErr := m.Free("pages")
		must(t, freeErr)
		if used := 1<<40 - free; done && (err != nil || used > extentHeaderBytes+30*120) {
			t.Errorf("%d bytes are left for 30 pages: %s, %v", used, m, err)
		}
		for _, fs := range []*vfs.MemFS{m, m.CrashClone(vfs.CrashOptions{Seed: uint64(fault), BlockPercent: 50, NamePercent: 50})} {
			options.FS = fs
			options.OnCorrupt = func(err *CorruptError) { t.Error(err) }
			var got []Ref
			l, err := Open(options, state, func(ref Ref, _ uint16, _ uint32) { got = append(got, ref) })
			must(t, err)
			if !slices.Equal(got, want) {
				t.Errorf("with a fault at operation %d there are pages %v, want %v", fault, got, want)
			}
			if _, err := l.Append(1, 99, 0, payloadOf(99, 100)); err != nil {
				t.Error(err)
			}
			must(t, l.Close())
		}
		if fault > 0 && done {
			return
		}
	}
	t.Error("a close has no end")
}
