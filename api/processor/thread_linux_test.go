package processor

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHeavyThreadStepsBehind asks the kernel for the slices of a thread that does heavy work beside small work, and of it afterwards.
func TestHeavyThreadStepsBehind(t *testing.T) {
	slices := func() time.Duration {
		attributes, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if attributes.Policy != unix.SCHED_NORMAL || attributes.Runtime == 0 {
			t.Skip("threads have no slices of their own: another policy, or a kernel before 6.12")
		}
		return time.Duration(attributes.Runtime)
	}
	before := slices()
	p := New(1)
	_, w := p.Begin(t.Context(), "a")
	w.Heavy()
	if got := slices(); got != before {
		t.Errorf("slices of %v without small work, %v before", got, before)
	}
	w.Idle()
	p.Small()
	w.Heavy()
	if got := slices(); got != longSlice {
		t.Errorf("slices of %v in a slot", got)
	}
	thread := unix.Gettid()
	w.EndAll()
	attributes, err := unix.SchedGetAttr(thread, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(attributes.Runtime); got != before {
		t.Errorf("slices of %v afterwards, %v before", got, before)
	}
}
