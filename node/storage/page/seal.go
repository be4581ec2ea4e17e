package page

import (
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// sealPass is how far SealThrough has come with its epoch.
type sealPass struct {
	active   bool
	epoch    uint16
	nextID   uint32
	nextLate int
	rebuilt  uint32 // of the late table when nextLate was 0
}

// headsPerSeal bounds the heads that SealThrough looks at, for each page that it
// may seal.
const headsPerSeal = 64

// sealsMax bounds the limit of SealThrough.
const sealsMax = 1 << 24

func (s *Set) sealMain(id uint32, h *head) error {
	slab := &s.slabs[h.slot.class()]
	s.payload = h.AppendPayload(s.payload[:0], slab.page(h.slot.number()))
	ref, err := s.sealer.Seal(id, h.sealed, s.payload, false)
	if err != nil {
		return err
	}
	h.sealed = ref
	slab.release(h.slot.number(), s.arena)
	h.slot &= slotScaled
	return nil
}

// sealLate seals the out-of-order page of a series, and the main page before it
// (rule P2).
func (s *Set) sealLate(id uint32, h *head, l *late) error {
	if !h.slot.empty() {
		if err := s.sealMain(id, h); err != nil {
			return err
		}
	}
	slab := &s.slabs[l.slot.class()]
	s.payload = l.AppendPayload(s.payload[:0], slab.page(l.slot.number()))
	ref, err := s.sealer.Seal(id, h.sealed, s.payload, true)
	if err != nil {
		return err
	}
	h.sealed = ref
	slab.release(l.slot.number(), s.arena)
	s.late.remove(l)
	return nil
}

// SealSeries seals the pages of one series.
func (s *Set) SealSeries(id uint32) error {
	h := s.known(id)
	if h == nil {
		return nil
	}
	if l := s.late.find(id); l != nil {
		return s.sealLate(id, h, l)
	}
	if !h.slot.empty() {
		return s.sealMain(id, h)
	}
	return nil
}

// SealOlder seals samples of a series, older than its newest one or not, as one page that nothing is added to, behind the pages
// that there are. EncodeFloats made the payload.
func (s *Set) SealOlder(id uint32, payload []byte) error {
	if err := s.SealSeries(id); err != nil {
		return err
	}
	h := s.head(id)
	ref, err := s.sealer.Seal(id, h.sealed, payload, true)
	if err == nil {
		h.sealed = ref
	}
	return err
}

// EncodeFloats appends the payload of a page with all of some samples, if they fit into one.
func EncodeFloats(dst []byte, columns *codec.Columns) (payload []byte, ok bool) {
	var memory [codec.PageBytesMax]byte
	head, ok := codec.EncodePage(memory[:], columns, series.ScaleFloat)
	if !ok {
		return dst, false
	}
	return head.AppendPayload(dst, memory[:]), true
}

// SealAll seals all pages.
func (s *Set) SealAll() error {
	for index := range s.heads.chunks {
		if err := s.sealChunk(index); err != nil {
			return err
		}
	}
	return nil
}

// SealSome seals the pages of a part of the series, from 0 on: of those of the n-th part it is called for. It reports
// whether there is such a part.
func (s *Set) SealSome(n int) (some bool, err error) {
	if n >= len(s.heads.chunks) {
		return false, nil
	}
	return true, s.sealChunk(n)
}

func (s *Set) sealChunk(index int) error {
	for i := range s.heads.chunks[index] {
		if err := s.SealSeries(uint32(index*headsPerChunk + i)); err != nil {
			return err
		}
	}
	return nil
}

// SealThrough seals every page that has a sample of an epoch ≤ epoch, compared
// modulo 2^16: epochs in use span less than 2^15. One call seals at most about
// limit pages (at least one series) and takes bounded time; call it with the
// same epoch until done, other calls in between do no harm. After an error,
// which is the Sealer's, it goes on where it was.
func (s *Set) SealThrough(epoch uint16, limit int) (done bool, err error) {
	p := &s.pass
	if !p.active || p.epoch != epoch {
		*p = sealPass{active: true, epoch: epoch}
	}
	limit = min(max(limit, 1), sealsMax)
	work := limit * headsPerSeal // one for each head seen, headsPerSeal for each page
	for ; int(p.nextID) < len(s.heads.chunks)*headsPerChunk; p.nextID++ {
		if work <= 0 {
			return false, nil
		}
		h := s.known(p.nextID)
		if h == nil { // no memory, so none up to the next chunk
			p.nextID |= headsPerChunk - 1
			work--
			continue
		}
		if work--; h.slot.empty() || after(h.Tag, epoch) {
			continue
		}
		if err := s.sealMain(p.nextID, h); err != nil {
			return false, err
		}
		work -= headsPerSeal
	}
	if done, err = s.sealLateThrough(work); done {
		p.active = false
	}
	return done, err
}

func (s *Set) sealLateThrough(work int) (done bool, err error) {
	p := &s.pass
	for {
		if p.rebuilt != s.late.rebuilt { // slots have moved
			p.nextLate, p.rebuilt = 0, s.late.rebuilt
		}
		if p.nextLate >= len(s.late.slots) {
			return true, nil
		}
		if work <= 0 {
			return false, nil
		}
		l := &s.late.slots[p.nextLate]
		if work--; l.key == 0 || after(l.Tag, p.epoch) {
			p.nextLate++
			continue
		}
		id := l.key - 1
		if err := s.sealLate(id, s.head(id), l); err != nil {
			return false, err
		}
		work -= 2 * headsPerSeal // and stay: another may have moved to this place
	}
}

func after(a, b uint16) bool { return int16(a-b) > 0 }
