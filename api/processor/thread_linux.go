package processor

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// longSlice is the longest slice that Linux takes (6.12 and later). A thread that wakes has the processor of one with longer
// slices than its own at once, and else waits for a tick or two of 4 ms.
const longSlice = 100 * time.Millisecond

// stepBehind makes threads that wake go before the one of the calling goroutine, which keeps it until stepUp. It has its share
// of the processors all the same. Kernels before 6.12 take no notice.
func stepBehind() {
	runtime.LockOSThread()
	setSlice(longSlice)
}

// stepUp ends stepBehind, on the same goroutine.
func stepUp() {
	setSlice(0)
	runtime.UnlockOSThread()
}

// setSlice asks for slices of the calling thread; 0: as other threads have them. Where it is refused, they stay as they are.
func setSlice(length time.Duration) {
	attributes, err := unix.SchedGetAttr(0, 0)
	if err != nil || attributes.Policy != unix.SCHED_NORMAL {
		return
	}
	attributes.Runtime = uint64(length)
	_ = unix.SchedSetAttr(0, attributes, 0)
}
