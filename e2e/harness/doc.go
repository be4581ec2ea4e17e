// Package harness runs servers as child processes for end-to-end tests and
// measurements: it builds the tickmesh binary, starts it (or a peer) pinned to
// some cores and within a memory limit, waits until it answers, reads what it
// costs from /proc, and ends it by SIGTERM or SIGKILL.
//
// A child dies with the process that started it, so that an aborted test leaves
// nothing behind. Linux only.
package harness
