// Package memory plays a cluster whose nodes and router have 512 MiB each, page cache included, in
// control groups of their own. A million series are written without pause and queried while one
// node is stopped (SIGSTOP) for long and goes on:
//
//   - the kernel ends no process, and none is started anew;
//   - every acknowledged sample is there, with its value, also after another node has been killed,
//     so that the one that was stopped has to answer for the log;
//   - queries are answered meanwhile.
//
// The limit is not told by a flag: each process finds it as it does in a container. Only root can
// make control groups, and not everywhere; the test is skipped where it cannot.
//
//	go test ./e2e/memory
//	go test ./e2e/memory -timeout 1h -args -long
//
// RESULTS.md has the figures.
package memory
