package page

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// NoPage is the reference that names no sealed page.
const NoPage uint32 = 0

// ErrPages is returned when the slab of a class is full: 2^28 pages.
var ErrPages = errors.New("too many hot pages in one shard")

// Sealer takes full pages.
type Sealer interface {
	// Seal stores the payload of a page of series id, whose previous sealed page
	// is previous (or NoPage), and returns its reference, which is not NoPage. The
	// payload is the Sealer's only until Seal returns. After an error the same
	// page is offered again later. Late marks an out-of-order page;
	// otherwise no sample of it is older than one of a page sealed before it,
	// but for late pages and those before a ForgetLast.
	Seal(id uint32, previous uint32, payload []byte, late bool) (ref uint32, err error)
}

// Options configure a Set.
type Options struct {
	Sealer Sealer
	Arena  *Arena // memory shared with other sets; nil: the Go heap
	// OnDay is called, before Append takes it, for a sample that may be its series' first of a day
	// (UTC) since the series has a head, and of no other but a few; nil: nobody needs to.
	OnDay func(id uint32, timeMs int64)
}

// Set holds the hot pages of one shard. It is not safe for concurrent use: the
// caller holds the shard's lock.
type Set struct {
	sealer Sealer
	arena  *Arena
	onDay  func(id uint32, timeMs int64)
	today  day // of the sample before
	heads  chunked[head]
	slabs  [classes]slab
	late   lateTable
	series int // known heads

	pass   sealPass
	warmed uint32 // keeps the loads of Warm alive

	payload []byte        // scratch of sealing and recoding
	columns codec.Columns // scratch of recoding
}

// NewSet returns an empty set. It holds almost no memory before its first sample.
func NewSet(options Options) *Set {
	s := &Set{sealer: options.Sealer, arena: options.Arena, onDay: options.OnDay}
	for class := range s.slabs {
		s.slabs[class].class = uint32(class)
	}
	return s
}

// Close returns the set's memory to its arena. The set is empty then; unsealed
// samples are lost.
func (s *Set) Close() {
	s.heads.release(s.arena)
	for class := range s.slabs {
		s.slabs[class].memory.release(s.arena)
	}
	*s = *NewSet(Options{Sealer: s.sealer, Arena: s.arena, OnDay: s.onDay})
}

// Append adds a sample of series id, which is dense: memory grows with the
// greatest one. epoch names the log file (or the like) that holds it.
// The sample is a later write than all before it. A repetition of the newest
// unsealed sample changes nothing.
//
// An error is the Sealer's or ErrPages: the sample is not in, no sample has been
// lost, and the same Append may be tried again.
func (s *Set) Append(id uint32, timeMs, mantissa int64, scale uint8, epoch uint16) error {
	if scale <= series.ScaleMax {
		if mantissa > series.MantissaMax || mantissa < -series.MantissaMax { // no decimal, but a float64 all the same
			mantissa, scale = series.FloatNumber(series.Float64(mantissa, scale)).Mantissa, series.ScaleFloat
		}
	} else {
		scale = series.ScaleFloat
	}
	h := s.head(id)
	if !h.Known() {
		s.tellDay(id, timeMs)
		if err := s.begin(&h.PageHead, &h.slot, id, timeMs, mantissa, scale, epoch); err != nil {
			return err
		}
		h.slot |= slotFirst
		s.series++
		return nil
	}
	if timeMs < h.TimeMs {
		return s.appendLate(id, h, timeMs, mantissa, scale, epoch)
	}
	if h.TimeMs < s.today.fromMs || timeMs >= s.today.endMs {
		if s.today = dayOf(timeMs); h.TimeMs < s.today.fromMs {
			s.tellDay(id, timeMs)
		}
	}
	if !h.slot.empty() {
		if added, err := s.add(&h.PageHead, &h.slot, id, timeMs, mantissa, scale); added || err != nil {
			return err
		}
		if err := s.sealMain(id, h); err != nil {
			return err
		}
	}
	return s.begin(&h.PageHead, &h.slot, id, timeMs, mantissa, scale, epoch)
}

func (s *Set) appendLate(id uint32, h *head, timeMs, mantissa int64, scale uint8, epoch uint16) error {
	l := s.late.find(id)
	if of := dayOf(timeMs); !of.has(h.TimeMs) && (l == nil || !of.has(l.TimeMs)) {
		s.tellDay(id, timeMs)
	}
	if l != nil {
		if added, err := s.add(&l.PageHead, &l.slot, id, timeMs, mantissa, scale); added || err != nil {
			return err
		}
		if err := s.sealLate(id, h, l); err != nil {
			return err
		}
	}
	l = s.late.insert(id)
	if err := s.begin(&l.PageHead, &l.slot, id, timeMs, mantissa, scale, epoch); err != nil {
		s.late.remove(l)
		return err
	}
	return nil
}

// begin starts a page where there is none.
func (s *Set) begin(h *codec.PageHead, place *slot, id uint32, timeMs, mantissa int64, scale uint8, epoch uint16) error {
	number, ok := s.slabs[0].take(s.arena)
	if !ok {
		return fmt.Errorf("series %d: %w", id, ErrPages)
	}
	flags := slotScaled
	// Keep the scale of the page before, if that needed it, so that 1.5 after
	// 1.25 does not start a page which the next 1.75 cannot join.
	if h.Known() && *place&slotScaled != 0 && scale < h.Scale() && h.Scale() <= series.ScaleMax {
		if m, ok := codec.Rescale(mantissa, scale, h.Scale()); ok {
			mantissa, scale, flags = m, h.Scale(), 0
		}
	}
	h.Begin(s.slabs[0].page(number), timeMs, mantissa, scale)
	h.Tag = epoch
	*place = makeSlot(0, number) | flags
	return nil
}

// add appends a sample to a page that is there. It grows or recodes the page as
// needed; added is false when the page must be sealed first.
func (s *Set) add(h *codec.PageHead, place *slot, id uint32, timeMs, mantissa int64, scale uint8) (added bool, err error) {
	if scale == h.Scale() {
		*place |= slotScaled
	} else {
		m, ok := codec.Rescale(mantissa, scale, h.Scale())
		if !ok {
			if ok, err = s.recode(h, place, id, scale); !ok || err != nil {
				return false, err
			}
			if m, ok = codec.Rescale(mantissa, scale, h.Scale()); !ok {
				return false, nil
			}
		}
		mantissa = m
	}
	if timeMs == h.TimeMs && h.Same(mantissa) {
		return true, nil
	}
	for {
		page := s.slabs[place.class()].page(place.number())
		if *place&slotFirst != 0 && place.class() == classes-1 {
			page = page[:firstBytes(id)]
		}
		if h.Append(page, timeMs, mantissa) {
			return true, nil
		}
		if place.class() == classes-1 {
			return false, nil
		}
		if err := s.move(place, place.class()+1, id); err != nil {
			return false, err
		}
	}
}

// firstBytes bounds the payload of a series' first page. Series that start
// together would otherwise all fill their pages at the same moment for ever.
func firstBytes(id uint32) int {
	const steps = (codec.PageBytesMax - codec.PageBytesMax/2) / 8
	return codec.PageBytesMax/2 + 8*(1+int(uint64(id*0x9e3779b1)*steps>>32))
}

// move moves a page to another class, which must have room for it.
func (s *Set) move(place *slot, class, id uint32) error {
	from := &s.slabs[place.class()]
	number, ok := s.slabs[class].take(s.arena)
	if !ok {
		return fmt.Errorf("series %d: %w", id, ErrPages)
	}
	copy(s.slabs[class].page(number), from.page(place.number()))
	from.release(place.number(), s.arena)
	*place = makeSlot(class, number) | *place&slotFlags
	return nil
}

func makeSlot(class, number uint32) slot { return slot(number<<slotShift | class + 1) }

// recodeFloatBytes bounds the payloads that are recoded as floats: a page with
// more in it would hardly take another sample.
const recodeFloatBytes = 32

// recode rewrites a page so that numbers of the given scale, which it does not
// take, may join. It reports false, and has changed nothing, if that does not
// fit into one page.
func (s *Set) recode(h *codec.PageHead, place *slot, id uint32, scale uint8) (bool, error) {
	page := s.slabs[place.class()].page(place.number())
	s.payload = h.AppendPayload(s.payload[:0], page)
	if scale <= h.Scale() { // the number is too large for the page's scale
		scale = series.ScaleFloat
	}
	if scale > series.ScaleMax && len(s.payload) > recodeFloatBytes {
		return false, nil
	}
	s.columns.Reset()
	if err := codec.DecodePage(s.payload, &s.columns); err != nil {
		return false, fmt.Errorf("hot page of series %d: %w", id, err)
	}
	var fresh [codec.PageBytesMax]byte
	recoded, ok := codec.EncodePage(fresh[:], &s.columns, scale)
	if !ok {
		return false, nil
	}
	class := uint32(0)
	for recoded.Bytes() > codec.PageBytesMin<<class {
		class++
	}
	number, ok := s.slabs[class].take(s.arena)
	if !ok {
		return false, fmt.Errorf("series %d: %w", id, ErrPages)
	}
	copy(s.slabs[class].page(number), fresh[:])
	s.slabs[place.class()].release(place.number(), s.arena)
	recoded.Tag = h.Tag
	*h, *place = recoded, makeSlot(class, number)|*place&slotFirst|slotScaled
	return true, nil
}

// Last returns the newest sample that was appended, sealed or not. It knows
// nothing of deletes: see ForgetLast.
func (s *Set) Last(id uint32) (timeMs int64, number series.Number, ok bool) {
	h := s.known(id)
	if h == nil || !h.Known() {
		return 0, series.Number{}, false
	}
	return h.TimeMs, h.Number(), true
}

// Hot is a copy of a series' state. Snapshot reuses the slices. A payload that
// is empty stands for no page; else codec.DecodePage reads it.
type Hot struct {
	Main       []byte
	OutOfOrder []byte
	Sealed     uint32 // the last sealed page, or NoPage
}

// Snapshot copies the state of a series into hot.
func (s *Set) Snapshot(id uint32, hot *Hot) {
	hot.Main, hot.OutOfOrder, hot.Sealed = hot.Main[:0], hot.OutOfOrder[:0], NoPage
	h := s.known(id)
	if h == nil {
		return
	}
	hot.Sealed = h.sealed
	if !h.slot.empty() {
		hot.Main = h.AppendPayload(hot.Main, s.slabs[h.slot.class()].page(h.slot.number()))
	}
	if l := s.late.find(id); l != nil {
		hot.OutOfOrder = l.AppendPayload(hot.OutOfOrder, s.slabs[l.slot.class()].page(l.slot.number()))
	}
}

// SetPage sets the last sealed page of a series, for recovery.
func (s *Set) SetPage(id, ref uint32) { s.head(id).sealed = ref }

// ForgetPages clears the references to sealed pages that keep refuses, as when
// their generation of the page log has been dropped.
func (s *Set) ForgetPages(keep func(ref uint32) bool) {
	for _, chunk := range s.heads.chunks {
		for i := range chunk {
			if ref := chunk[i].sealed; ref != NoPage && !keep(ref) {
				chunk[i].sealed = NoPage
			}
		}
	}
}

// ForgetLast makes Last forget the newest sample of a series without hot pages,
// as when it may have been deleted: seal the series first. What comes next may
// have any time.
func (s *Set) ForgetLast(id uint32) {
	if h := s.known(id); h != nil && h.slot.empty() && h.Known() && s.late.find(id) == nil {
		*h = head{sealed: h.sealed}
		s.series--
	}
}

// Retire drops all that is known of a series, unsealed samples too: for series
// that are deleted, or idle for long and sealed before.
func (s *Set) Retire(id uint32) {
	h := s.known(id)
	if h == nil {
		return
	}
	if !h.slot.empty() {
		s.slabs[h.slot.class()].release(h.slot.number(), s.arena)
	}
	if l := s.late.find(id); l != nil {
		s.slabs[l.slot.class()].release(l.slot.number(), s.arena)
		s.late.remove(l)
	}
	if h.Known() {
		s.series--
	}
	*h = head{}
}

// ReleaseHeads returns to the arena the chunks of heads in which no series knows anything, of those that these ids
// are in. Callers retire the series before; whoever appends to one of a chunk later takes it anew.
func (s *Set) ReleaseHeads(ids []uint32) {
	last := -1
	for _, id := range ids {
		index := int(id / headsPerChunk)
		if index == last || index >= len(s.heads.chunks) || len(s.heads.chunks[index]) < headsPerChunk {
			continue
		}
		if last = index; !slices.ContainsFunc(s.heads.chunks[index], func(h head) bool { return h != head{} }) {
			s.heads.drop(index, s.arena)
		}
	}
}
