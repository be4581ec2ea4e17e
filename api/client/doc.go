// Package client is the Go client of TickMesh: it writes, queries and deletes
// samples over gRPC, and tells of the cluster.
//
//	c, err := client.New(client.Options{Endpoints: []string{"router-1:6183", "router-2:6183"}})
//	defer c.Close()
//
//	w, err := c.NewWriter(client.WriterOptions{})
//	cpu := client.MustSeries("cpu", client.Tag{Name: "host", Value: "a"})
//	err = w.Append(ctx, cpu, time.Now().UnixMilli(), 0.64)
//	err = w.Close(ctx) // sends what is left, and tells what was lost
//
//	for chunk, err := range c.Query(ctx, client.Query{…}) { … }
//
// # Writes
//
// A Writer gathers samples into batches, by number, bytes and time, and sends them.
// A batch has an id, and is sent again with the same id, through any router, until
// it is answered, cannot succeed, or its time is over; however often it is sent it
// is written once. When the buffer is full, Append waits, or fails with ErrBufferFull
// where that was chosen. Batches are sent one after the other, so that of two samples
// with one series and time the later one counts, unless WriterOptions.BatchesInFlight
// allows more at once. Client.Write writes some samples and waits for the answer.
//
// # Errors
//
// Errors are values with kinds for errors.Is: ErrUnavailable, ErrOverloaded,
// ErrInvalid and the others of this package. ErrUnavailable, ErrOverloaded and
// context.DeadlineExceeded leave open whether something was written. What the server
// said is a *wire.Error.
//
// # Routers
//
// Calls and streams go round the endpoints. One that fails is left alone for a
// moment that grows with each failure, as long as there are others.
package client
