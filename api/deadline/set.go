package deadline

import (
	"sync"
	"time"
)

// Set has an Adaptive for each key, such as the address of a peer. It is safe for
// concurrent use.
type Set struct {
	min, max time.Duration
	keysMax  int

	mu struct {
		sync.Mutex
		byKey map[string]*Adaptive
	}
}

// NewSet returns a Set whose times have the given bounds, for at most keysMax keys. When
// there would be more, it forgets all of them: keys of peers that are gone are not told
// apart, and what is forgotten is learnt again within a few operations.
func NewSet(min, max time.Duration, keysMax int) *Set {
	s := &Set{min: min, max: max, keysMax: keysMax}
	s.mu.byKey = map[string]*Adaptive{}
	return s
}

// For returns the time allowed for a key.
func (s *Set) For(key string) *Adaptive {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.mu.byKey[key]; a != nil {
		return a
	}
	if len(s.mu.byKey) >= s.keysMax {
		clear(s.mu.byKey)
	}
	a := New(s.min, s.max)
	s.mu.byKey[key] = a
	return a
}
