package auth

import "time"

// addressClass is what is known of an address from which passwords come.
type addressClass uint8

// The classes, the best one first.
const (
	known   addressClass = iota // a password was right, and none wrong since
	unknown                     // nothing came from it lately
	failed                      // the last password was wrong
	classes
)

// Bounds of an addressBook.
const (
	addressesMax = 4096 // of each kind
	failureKept  = 10 * time.Minute
	successKept  = 24 * time.Hour
)

// addressBook remembers which addresses have shown right and wrong passwords. Those with
// right ones are kept apart, so that a flood of wrong ones from many addresses does not make
// them forgotten. It is guarded by its gate.
type addressBook struct {
	right, wrong map[string]time.Time // until when it counts
}

func (b *addressBook) class(address string) addressClass {
	now := time.Now()
	switch {
	case now.Before(b.wrong[address]):
		return failed
	case now.Before(b.right[address]):
		return known
	}
	return unknown
}

func (b *addressBook) succeeded(address string) {
	delete(b.wrong, address)
	b.right = remember(b.right, address, successKept)
}

func (b *addressBook) failed(address string) { b.wrong = remember(b.wrong, address, failureKept) }

// remember notes an address. Where there is no room, those that do not count any more go,
// and then any one.
func remember(in map[string]time.Time, address string, kept time.Duration) map[string]time.Time {
	if in == nil {
		in = map[string]time.Time{}
	}
	now := time.Now()
	if _, ok := in[address]; !ok && len(in) >= addressesMax {
		for other, until := range in {
			if !now.Before(until) {
				delete(in, other)
			}
		}
		for other := range in {
			if len(in) < addressesMax {
				break
			}
			delete(in, other)
		}
	}
	in[address] = now.Add(kept)
	return in
}
