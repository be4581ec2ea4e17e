package pagelog

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestRollAndDropUnderLoad rolls, syncs and drops while pages are appended and
// read. Every page is in exactly one generation.
func TestRollAndDropUnderLoad(t *testing.T) {
	options := small(vfs.NewMemFS())
	options.GenerationBytes = 8 << 20
	l, err := Open(options, State{}, nil)
	must(t, err)
	const writers, pages = 3, 2000
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := 0; n < pages; {
				// The page is in one of the pin's generations or in a newer one.
				pin := l.Pin()
				ref, err := l.Append(uint16(w), uint32(n), 0, payloadOf(n, 1+n%200))
				switch {
				case err != nil:
					t.Error(err)
					n = pages
				default:
					page, err := pin.Read(ref, nil)
					if err == nil && (page.ID != uint32(n) || !bytes.Equal(page.Payload, payloadOf(n, 1+n%200))) || err != nil && !errors.Is(err, ErrNoPage) {
						t.Errorf("page %d is %+v, %v", n, page, err)
					}
					n++
				}
				must(t, pin.Close())
			}
		})
	}
	done := make(chan struct{})
	counted := map[[2]uint32]int{}
	count := func(number uint32) {
		pin := l.Pin()
		defer pin.Close()
		if err := pin.Each(number, func(_ Ref, p Page) error { counted[[2]uint32{uint32(p.Shard), p.ID}]++; return nil }); err != nil {
			t.Error(err)
		}
	}
	var roller sync.WaitGroup
	roller.Go(func() {
		// So few rolls that no two generations have one number modulo 16.
		for range GenerationsMax - 1 {
			select {
			case <-done:
				return
			default:
			}
			ended, err := l.Roll()
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := l.Sync(); err != nil {
				t.Error(err)
			}
			count(ended)
			if err := l.Drop(ended); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	close(done)
	roller.Wait()
	count(l.Generations()[0])
	if len(counted) != writers*pages {
		t.Errorf("%d pages, want %d", len(counted), writers*pages)
	}
	for page, n := range counted {
		if n != 1 {
			t.Fatalf("page %v was seen %d times", page, n)
		}
	}
	if s := l.Stats(); s.Corruptions != 0 || s.Generations != 1 {
		t.Errorf("stats %+v", s)
	}
	must(t, l.Close())
}
