package storage

import "testing"

func TestScarcity(t *testing.T) {
	var s scarcity
	if s.next(0) {
		t.Fatal("scarce before the first fault")
	}
	for range 3 {
		faults := s.faults.Load() + 7
		if !s.next(faults) {
			t.Fatal("not scarce after a fault")
		}
		for i := range 2 * scarceScans {
			if got, want := s.next(faults), i < scarceScans; got != want {
				t.Fatalf("scan %d after a fault: %v", i, got)
			}
		}
	}
}
