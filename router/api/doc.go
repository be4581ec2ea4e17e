// Package api serves the public gRPC API, proto/tickmesh/v1, over the borders of
// the project: a Writer and a Resolver take samples, a scan.Source answers, a
// scan.Deleter deletes, and a Cluster tells of nodes and shards.
//
//	s, err := api.New(api.Options{Writer: …, Resolver: …, Shards: 128, Source: …})
//	server := grpc.NewServer(s.ServerOptions(credentials)...)
//	s.Register(server)
//	…
//	s.Shutdown()          // streams of writes end, each batch answered or not read
//	server.GracefulStop()
//
// A write stream is a session: it names series by handles, whose keys and ids it
// remembers. A batch is checked as a whole, encoded once by shard, and written with
// the client's batch id, so that its repetition through any router is known as
// such. Batches of a stream are read in order and written side by side, a bounded
// number of them; a client that needs an order between two batches waits for the
// answer to the first.
//
// What is bounded, by Limits: messages, calls, handles and their keys, and the bytes of
// all sessions and batches together; queries by admission control. Beyond the last bound batches
// are refused with OVERLOADED, which clients repeat.
package api
