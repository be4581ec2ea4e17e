package pagelog

// Slots is the number of values that Ref.Slot has. It is more than the live
// generations that there may be, so a slot tells them apart.
const Slots = 1 << (32 - refOffsetBits)

// Slot is the number of the page's generation modulo Slots.
func (r Ref) Slot() uint32 { return r.slot() }

// Offset is the place of the page in its generation, in units of 8 bytes. Pages
// that are appended later have larger ones.
func (r Ref) Offset() uint32 { return uint32(r & refOffsetMask) }

// End returns the place that all pages so far come before, and all later ones do
// not: the current generation, and an offset as that of Ref.
func (l *Log) End() (generation, offset uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.currentLocked().number, uint32((l.mu.buffers.start + int64(len(l.mu.buffers.active))) / pageAlign)
}

// Current returns the number of the current generation without a lock. It is never older
// than that of a page whose Ref the caller knows.
func (l *Log) Current() uint32 { return l.current.Load() }

// GenerationSize describes how much a live generation holds.
type GenerationSize struct {
	Number uint32
	Bytes  int64 // up to the end of its last page; 0: it has none
}

// Sizes returns the live generations, oldest first. The last one is the current one.
func (l *Log) Sizes() []GenerationSize {
	l.mu.Lock()
	defer l.mu.Unlock()
	sizes := make([]GenerationSize, 0, len(l.mu.generations))
	for _, g := range l.mu.generations {
		end := g.flushed.Load()
		if g == l.currentLocked() {
			end = l.mu.buffers.start + int64(len(l.mu.buffers.active))
		}
		if end <= extentHeaderBytes {
			end = 0
		}
		sizes = append(sizes, GenerationSize{Number: g.number, Bytes: end})
	}
	return sizes
}
