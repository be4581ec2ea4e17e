package page

import (
	"github.com/tickmesh/tickmesh/api/series"
)

// NoPage is the reference that names no sealed page.
const NoPage uint32 = 0

// Sealer takes full pages.
type Sealer interface {
	// Seal stores the payload of a page of series id, whose previous sealed page
	// is previous (or NoPage), and gives its reference, which is not NoPage. The
	// payload is the Sealer's only until Seal returns.
	Seal(id uint32, previous uint32, payload []byte) (ref uint32, err error)
}

// Options of a Set.
type Options struct {
	Sealer Sealer
}

// Set holds the hot pages of one shard. It is not safe for concurrent use: the
// caller holds the shard's lock.
type Set struct{ options Options }

// NewSet gives an empty set.
func NewSet(options Options) *Set { return &Set{options: options} }

// Append adds a sample; epoch names the log file (or the like) that holds it.
// After an error the sample is not in and nothing has changed.
func (s *Set) Append(id uint32, timeMs, mantissa int64, scale uint8, epoch uint16) error { return nil }

// SealThrough seals every series that has samples of an epoch ≤ epoch (compared
// modulo 2^16), at most about limit pages in one call. Call it again until done.
func (s *Set) SealThrough(epoch uint16, limit int) (done bool, err error) { return true, nil }

// SealSeries seals the pages of one series.
func (s *Set) SealSeries(id uint32) error { return nil }

// SealAll seals all pages.
func (s *Set) SealAll() error { return nil }

// Retire drops all that is known of a series, unsealed samples too.
func (s *Set) Retire(id uint32) {}

// Hot is a copy of a series' state. The slices are reused by Snapshot. A
// payload that is empty stands for no page; else codec.DecodePage reads it.
type Hot struct {
	Main       []byte
	OutOfOrder []byte
	Sealed     uint32 // the last sealed page, or NoPage
}

// Snapshot copies the state of a series into hot.
func (s *Set) Snapshot(id uint32, hot *Hot) {}

// Last gives the newest sample that was appended, sealed or not.
func (s *Set) Last(id uint32) (timeMs int64, number series.Number, ok bool) {
	return 0, series.Number{}, false
}

// ForgetPages clears the references to sealed pages that keep refuses.
func (s *Set) ForgetPages(keep func(ref uint32) bool) {}

// SetPage sets the last sealed page of a series, for recovery.
func (s *Set) SetPage(id, ref uint32) {}
