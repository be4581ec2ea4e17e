// Package parse turns the text of a write protocol into points. Its functions
// are pure: bytes in, a Batch out, no clock, no I/O, no state besides the Batch.
//
//	Lines        InfluxDB line protocol
//	Puts         OpenTSDB put lines: telnet, UDP, plain HTTP bodies
//	JSON         OpenTSDB /api/put
//	Graphite     Graphite's plaintext; GraphitePickle: its frames of pickles
//	RemoteWrite  Prometheus remote write 1.0 and 2.0, decompressed
//	JSONLines    VictoriaMetrics' lines of JSON
//	CSV          comma-separated values, by a format of VictoriaMetrics
//	Exposition   Prometheus' text format
//	OTLP         OpenTelemetry's metrics in protobuf, by Prometheus' names
//
// A Batch is reused from call to call and owns no input: its spans point into
// the body that was parsed, which must stay unchanged until the batch is done
// with. Nothing is allocated per point once the batch has grown.
//
// # Two stages
//
// A parser splits a line into its identity text (metric and tags, as raw bytes)
// and its points. It does not unescape, sort or check the tags: a router that
// has seen the same bytes before knows their series already. KeyBuilder does
// that work for the lines that are new, and it finds the errors that are in the
// tags. So a batch is known to be good only after every line of it was either
// recognised or built; package split does both.
//
// # Fast and general paths
//
// The text parsers have a fast path for the common form of a line, which reads
// eight bytes at a time, and a general path that knows every rule of the
// protocol. The fast path accepts a line only if the general path would give the
// same result; whatever it is not sure of, errors included, it leaves to the
// general path. Fuzz tests compare the two.
//
// The fast path may look at up to 16 bytes behind the end of the body, where
// the slice's capacity has room for them. A body without that room is parsed
// correctly, its last line a little slower.
package parse
