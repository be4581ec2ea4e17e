// Package ingest listens for the protocols that clients already speak, hands what
// they send to a Writer and answers each in its own way.
//
// # Ports
//
//   - HTTP: /api/put (OpenTSDB), /write, /api/v2/write, /ping and /health
//     (InfluxDB), /api/write (TickTock), /api/v1/write (Prometheus remote write
//     1.0 and 2.0), /api/v1/import and what is below (VictoriaMetrics), /v1/metrics
//     (OpenTelemetry). Every other path goes to Options.Other, an ordinary net/http
//     handler. What OpenTelemetry sends over gRPC comes by Server.ExportOTLP.
//   - put: OpenTSDB's telnet style commands. A connection whose first byte is an
//     upper-case letter speaks HTTP and is served as on the HTTP port.
//   - line: InfluxDB line protocol, without answers but for errors.
//   - Graphite: its plaintext, or frames of pickles, without answers but for refusals of the caller.
//   - UDP: datagrams of put lines or line protocol.
//
// # What an answer means
//
// HTTP answers after Writer.Write has returned: a 2xx means that the points are
// where the Writer promises them to be. TCP is silent on success. Errors come one
// per line, and the reply to a command comes after all earlier lines of its
// connection were written. A connection reads on only after the chunk that it
// read was written; not reading is the back-pressure.
//
// A point is counted once: accepted, refused (with a reason that the client is
// told where the protocol has a way to), skipped (text where a number is needed; the header
// X-Tickmesh-Text-Fields of an answer counts such fields of line protocol, which Options.RefuseText has refused)
// or failed (the write as a whole gave an error). The four add up to the points
// that were read. A line that is none of its protocol counts as one refused point;
// a telnet command is no point.
//
// A large body is split and written in pieces, one after the other. An error ends
// it: the pieces before are written, the whole request is to be sent again, and the
// same points twice do no harm.
//
// A request over HTTP may have a header Idempotency-Key, of 1 to 255 printable bytes.
// Its repetition, through any router, applies only what was not applied before. The same
// key with another body, database or path is another write. See writeOptions.setOn. With the
// header X-Tickmesh-Level: all, or InfluxDB's consistency=all, the answer waits for every
// full voter; when one does not follow in time it is 503, the points are written all the
// same, and X-Tickmesh-Copies says in how many copies.
//
// # Databases
//
// A write goes to the database of its parameter db (bucket for InfluxDB 2), else of its path
// /db/NAME/…, else of the header X-Scope-OrgID, else to the default one, which "default"
// names, too. The put, line, Graphite and UDP ports have one each, by Options. A path is read as it
// was sent: its name is decoded once, and parts that another server might read otherwise are
// refused. Handlers behind get the rest of the path, and the database in their context.
//
// Options.Meter has an account for each database. Beyond its rate HTTP is 503 with
// Retry-After, TCP connections are not read on until the rate is met, and datagrams are
// dropped and counted.
//
// # Callers
//
// With Options.Authenticator nothing is answered before it is known who calls, but GET and HEAD of
// /healthz, /readyz, /health and /ping. 401 and 403 are worded in the dialect of their path;
// a browser that asks for the page gets Options.SignInPage with its 401.
// A TCP connection says who it is by its certificate, or by a first line `auth USER PASSWORD`
// or `auth token TOKEN`, within 30 s; else it is told so in one line and closed. Whether the
// caller may write is asked for each request and each chunk.
//
// # Life
//
// New checks the options, Start binds every listener and serves, Shutdown drains:
// it stops accepting, closes what is idle, lets requests finish, writes what the
// TCP ports have already received, and at its context's end closes the rest.
//
// # Reading the source
//
// Server.Start in server.go binds; listener.go accepts. An HTTP write goes through
// front.serve (front.go), body.read (body.go), inFlightWrite.write (piece.go) and an
// answer in opentsdb.go, influx.go or prometheus.go. A TCP chunk goes through
// stream.run (stream.go; graphite.go) into the same inFlightWrite.write. An inFlightWrite lasts until its
// answer; the worker that parses and splits it serves others by then (inflight.go).
// Any other request over HTTP is a question: a connection changes between fasthttp, which
// serves points, and net/http at the border of two requests (border.go), and asked.ServeHTTP
// (asked.go) lets the question in by the same rules and runs Options.Other.
package ingest
