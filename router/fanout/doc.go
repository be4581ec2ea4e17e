// Package fanout spreads a router's writes and reads over the nodes of a cluster.
// Cluster is the ingest.Writer, the scan.Deleter and, at a read's
// consistency, the scan.Source; its Resolver remembers series' ids.
//
//	c := fanout.New(fanout.Options{Self: …, Credentials: …, Logger: …, Registerer: …})
//	go c.Follow(store.Watch(ctx))
//	… ingest.Options{Writer: c, Resolver: c.Resolver(), Generation: c.Generation}
//	… opentsdb.Options{Source: c.Source(scan.Consistency{}), Deleter: c}
//
// Who leads a shard is a guess: the node that answered last, else the first full
// voter of the map. A node that does not lead says who does; one that does not answer
// makes way for the shard's next full voter. Guesses cost time, never correctness.
//
// A write has an id that all its attempts keep, so that whatever became of an attempt
// whose answer is missing, nothing is applied twice. Ids are sessions and counters, unless
// the frame brings one of its own (series.KeyedID) or that of an SDK; a
// shard remembers the last 128 counters of a session, and a session's counters in flight
// are never further apart than sessionSpan. Small frames are not put together: gRPC
// sends what waits for the connection in one piece.
//
// A read asks each node once for all its shards. What fails is asked for again, by
// shard: a scan goes on after the last series that was given in full. A node that says
// nothing for a while is asked whether it is there: a slow one is waited for, one that
// was stopped makes way.
//
// While a node does not answer and reads or writes wait for it, a leader probe asks all others
// who leads its shards: a new leader is known within a moment of its election. When the
// others say that the silent node still leads, only this router is cut off from it; after
// a second a full voter that is up to date is asked to take over, which the leader itself
// grants (replica.Host.Transfer), not to and fro between two routers that reach different
// nodes.
//
// Bounds: frames in flight by number and bytes; bytes that wait for a stream; bytes
// that a read holds; the resolver's memory; every retry by a time.
package fanout
