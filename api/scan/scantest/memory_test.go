package scantest

import "testing"

// TestMemory runs the suite against the source that the suite's random test
// uses as its oracle; the other tests have expectations written by hand.
func TestMemory(t *testing.T) {
	RunSourceTests(t, func(*testing.T) Subject {
		m := NewMemory()
		return Subject{Source: m, Deleter: m, Put: m.Put}
	})
}
