// Package memory divides the memory that a process may use among its holders, such as queues
// and caches.
//
// A Plan is the one division of a process. It is made once, at the start, from a limit (a flag,
// the limit of the control group, or the memory of the machine) and from what the process does.
// Each holder takes its bound from it, so that the sum of these bounds never exceeds the limit,
// and tells it what it holds, for metrics. What nobody counts is paid from the spare share:
// up to 1 MiB for each write that is being parsed, buffers of connections, a few blocks of what a scan
// reads, 64 KiB of entries that each Raft group may hold, and an etcd in the same process.
//
// # The division
//
// Of 64 parts of the limit:
//
//	share        standalone  router  node  local cluster  of
//	writes           17        17     –        12         requests that write, from their first byte to their answer, and what is kept to be used again
//	reads             3         3     –         3         bodies and answers of all other requests
//	calls             3         3     3         2         windows of gRPC calls, of which nothing is read yet
//	queries           7        12     –         5         samples and answers of queries, what their scans hold
//	cache             2         3     –         2         windows of time that are kept (--query-cache)
//	forwards          –         8     –         3         writes on their way to nodes
//	ids               –         8     –         3         ids of series that a router has learnt
//	messages          –         –    12         5         messages of routers and nodes, until they are answered
//	scans             –         –     3         2         what scans of nodes hold until they can answer: samples that a step sees, groups
//	inbox             –         –     4         2         envelopes of Raft that wait for the node's loop
//	outbox            –         –     2         1         envelopes of Raft that wait for other nodes, and what is read from the log for members that lag
//	entries           3         –     9         5         entries on their way to the log, and of Raft groups those that are not decided or not applied, and the newest
//	series           19         –    20        12         the index, the hot pages and the exemplars of all shards
//	maintenance       5         –     6         3         flushes, exports
//	spare             5        10     5         4         the program, stacks, buffers of sockets
//
// Shares are bounds and not reservations: most are empty most of the time, and the kernel uses
// memory that nobody holds for its cache of files, which it frees when needed. Flags and
// constants may bound a share further, and never raise it. What it cannot use then is added to
// series, or to spare in a router; on a machine with much memory that is most of the limit. The
// nodes of a local cluster get equal parts of each share.
//
// Half of the limit is the soft limit of Go's runtime in a process with storage, as hot pages lie
// beside its heap, and three quarters in a router.
package memory
