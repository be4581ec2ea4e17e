// Package processor bounds how much heavy work a process does at once, so that small work (a
// write, a read of a few series) always finds a processor. Go's scheduler has no priorities: a
// goroutine that becomes runnable while all processors parse, scan and sort waits for slices of
// 10 ms of the goroutines before it.
//
// A Pool has a slot for each goroutine that may do heavy work at a time. A request begins with an
// allowance of time in which it needs no slot, so that cheap ones never wait; from then on, or
// from the moment that it is known to be heavy, its goroutines work in slots only. They call Pace
// as they go, which passes the slot to others after a while:
//
//	ctx, work := pool.Begin(ctx, owner)  // of a request, on the goroutine that serves it
//	defer work.EndAll()
//	for … {
//		processor.Of(ctx).Pace()     // about once a millisecond
//	}
//	processor.Of(ctx).Idle()             // before it waits for anything: network, disk, others
//
// While no small work comes (Small), the spare processor is lent to heavy work, too. While both come, the process has more of
// Go's processors (Ps) than the machine, so that one is free for whoever becomes runnable. The kernel then shares out the
// machine's, and takes that of a thread in a slot at once for a thread that wakes.
//
// On one processor Go has one P. Whoever computes in a slot there, or in the background, yields to all that is ready and readable
// every 250 µs or so (Turn).
//
// Owners that wait take turns, and of the requests of one the one that has worked least comes first, unless another one is late by then. Beside the slots there is one in reserve, for owners that have had little lately: their reads
// that take longer than the allowance do not wait for those of others that cannot be paced.
//
// Heavy work also sees to it that somebody waits for the network meanwhile (see wakePoller).
//
// # Why nothing waits for ever
//
// P1. A goroutine has one Work, that of its context. A goroutine that is started for heavy work
// gets a context with a Work of its own (Fork).
//
// P2. A goroutine waits for a slot without having one: only Pace and Heavy wait, and a Work has
// one slot at most. So a request that calls a node in its own process goes on with the slot that
// it has, and needs no second one.
//
// P3. Pace and Heavy are called with no lock held.
//
// P4. Before it waits for other goroutines, the network or a queue, a goroutine calls Idle. It need
// not for a lock that is held for moments: by P3 the holder of the lock does not wait for a slot.
//
// By these, each holder of a slot gives it up in bounded time without anybody's help, so that each
// waiter gets one. Where a holder does not (a library that evaluates for seconds and cannot be
// paced), one more slot is lent each time that none has changed hands for standstill. Who has
// waited for waitMax all the same goes on without a slot for as long, which Pool counts.
package processor
