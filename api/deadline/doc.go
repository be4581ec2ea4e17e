// Package deadline adapts the time allowed for operations to what the machines need.
//
// A fixed deadline turns overload into collapse: once an operation takes longer than it
// allows, all that was done for it is thrown away and done again, and the load grows while
// nothing completes. The time allowed here grows after a failure and shrinks after a
// success, within bounds; a machine that is idle again is back at the minimum after a few
// successes. The package depends neither on clocks nor on what the operations are.
package deadline
