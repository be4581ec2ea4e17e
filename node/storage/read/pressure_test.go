package read

import "testing"

func TestPressure(t *testing.T) {
	var s pressure
	if s.next(0) {
		t.Fatal("pressure before the first fault")
	}
	for range 3 {
		faults := s.faults.Load() + 7
		if !s.next(faults) {
			t.Fatal("no pressure after a fault")
		}
		for i := range 2 * prefetchScans {
			if got, want := s.next(faults), i < prefetchScans; got != want {
				t.Fatalf("scan %d after a fault: %v", i, got)
			}
		}
	}
}
