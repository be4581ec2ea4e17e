package processor

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// spared is how many of Go's processors (Ps) a process has at least, but for Share: with one, whoever syncs a
	// file or does heavy work has all there is, and nobody is served meanwhile.
	spared = 2
	// extraFactor is how many times as many Ps there are while heavy work and small work meet, and extraMin the least there are
	// then. A quarter of all Ps marks garbage, and heavy work holds all of the machine's but one: of twice as many, some are free.
	extraFactor = 2
	extraMin    = 4
	// extraKept is how long there are more Ps after heavy work and small work have met. To change their number stops all
	// goroutines for tens of microseconds.
	extraKept = 10 * time.Second
	// heavyUsed is from what work on a request is heavy beyond doubt: a small read whose processor is taken from it uses
	// more than its allowance, too.
	heavyUsed = 10 * time.Millisecond
	// heavyMeets is how long slots were in use lately for such work when it is said to meet small work.
	heavyMeets = 100 * time.Millisecond
)

// ownProcessors reports whether the environment sets the number of Ps. Then it stays as it is.
func ownProcessors() bool { return os.Getenv("GOMAXPROCS") != "" }

// mayRaise reports whether the process may have more Ps than processors. Where a control group has a quota of time below the
// machine's processors, more threads at once would use it up sooner, and all would stand still until the next period.
func mayRaise(quota float64) bool { return !ownProcessors() && quota >= float64(runtime.NumCPU()) }

// Prepare prepares a process, before anything asks for the number of Ps: it has two at least.
func Prepare() {
	if !ownProcessors() && runtime.GOMAXPROCS(0) < spared {
		runtime.GOMAXPROCS(spared)
	}
}

// Share leaves a process on one processor one P, and more only while its Pool wants them. It is for processes whose heavy work is in a
// Pool and whose syncs of files hold no P, before anything asks for the number of Ps. A second P that nothing needs is dear
// there: the kernel lets the two threads take turns of a tick, 4 ms and more, and the request that one is at waits for so long.
func Share() {
	if mayRaise(quota(os.DirFS("/"))) {
		runtime.SetDefaultGOMAXPROCS()
	}
}

// raiseProcessors makes more Ps than the machine, or the control group, has processors.
func raiseProcessors() { runtime.GOMAXPROCS(max(extraFactor*runtime.GOMAXPROCS(0), extraMin)) }

// lowerProcessors makes as many Ps as the machine, or the control group, has processors, but at least so many.
func lowerProcessors(least int) {
	if runtime.SetDefaultGOMAXPROCS(); runtime.GOMAXPROCS(0) < least {
		runtime.GOMAXPROCS(least)
	}
}

// extra has more Ps than processors while heavy work and small work meet. Go's scheduler lets a goroutine wait until a P
// is free, for 10 ms and more; with a P free it has a thread at once, which the kernel lets go before those in slots
// (stepBehind). While they do not meet, there are no more Ps: they cost ingest a tenth and more of its throughput.
// An extra without functions does nothing.
type extra struct {
	raise, lower func()
	began        time.Time
	met          atomic.Int64 // when they met last, in nanoseconds after began
	raised       atomic.Bool  // more Ps are there, and a goroutine that will take them away
	raises       atomic.Int64
}

// meet notes that heavy work and small work meet.
func (e *extra) meet() {
	if e.raise == nil {
		return
	}
	e.met.Store(int64(time.Since(e.began)))
	if !e.raised.Load() && e.raised.CompareAndSwap(false, true) {
		e.raises.Add(1)
		go e.run() // to change the number waits for a collection of garbage
	}
}

// run has more Ps until they have not met for extraKept.
func (e *extra) run() {
	defer e.raised.Store(false)
	e.raise()
	defer e.lower()
	for {
		left := extraKept - time.Since(e.began.Add(time.Duration(e.met.Load())))
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}
