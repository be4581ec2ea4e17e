package parse

import "github.com/tickmesh/tickmesh/api/series"

// LineOptions are the arguments of Lines.
type LineOptions struct {
	Limits Limits
	// Precision is the unit of the timestamps.
	Precision Precision
	// NowMs is the time of points without a timestamp, in ms since the epoch.
	NowMs int64
	// Partial says that more bytes of the stream may follow: a last line
	// without newline is left for the next call.
	Partial bool
	// InsideLine says that the body starts inside a line that was refused for
	// its length; everything up to the first newline is skipped.
	InsideLine bool
}

// PutOptions are the arguments of Puts.
type PutOptions struct {
	Limits     Limits
	Partial    bool // as in LineOptions
	InsideLine bool // as in LineOptions
	// Bare accepts lines without the word put, as some UDP and HTTP senders
	// write them.
	Bare bool
}

// Rest says what is left of a stream's bytes after a partial parse.
type Rest struct {
	Consumed   int  // bytes of the body that are done with
	InsideLine bool // the next call's InsideLine
}

// Lines parses InfluxDB line protocol. Its only error is ErrTooLarge.
func Lines(b *Batch, body []byte, o LineOptions) (Rest, error) {
	return Rest{Consumed: len(body)}, b.reset(body)
}

// Puts parses OpenTSDB put lines. Other lines become Commands. Its only error is
// ErrTooLarge.
func Puts(b *Batch, body []byte, o PutOptions) (Rest, error) {
	return Rest{Consumed: len(body)}, b.reset(body)
}

// JSON parses the body of /api/put: one datapoint or an array of them.
func JSON(b *Batch, body []byte, limits Limits) error { return b.reset(body) }

// RemoteWriteVersion says which protobuf message a body is.
type RemoteWriteVersion uint8

// The versions of Prometheus remote write.
const (
	RemoteWrite1 RemoteWriteVersion = 1 // prometheus.WriteRequest
	RemoteWrite2 RemoteWriteVersion = 2 // io.prometheus.write.v2.Request
)

// RemoteWrite parses a decompressed remote write body.
func RemoteWrite(b *Batch, body []byte, version RemoteWriteVersion, limits Limits) error {
	return b.reset(body)
}

// Precision is the unit of a line protocol timestamp.
type Precision uint8

// The precisions. PrecisionGuess takes the unit from the magnitude of each
// timestamp, as TickTock's /api/write does.
const (
	PrecisionNs Precision = iota
	PrecisionUs
	PrecisionMs
	PrecisionS
	PrecisionM
	PrecisionH
	PrecisionGuess
)

// PrecisionOf reads the precision argument of InfluxDB's /write and
// /api/v2/write: n, ns, u, µ, us, ms, s, m, h; empty means nanoseconds.
func PrecisionOf(text string) (Precision, bool) {
	switch text {
	case "", "n", "ns":
		return PrecisionNs, true
	case "u", "µ", "us":
		return PrecisionUs, true
	case "ms":
		return PrecisionMs, true
	case "s":
		return PrecisionS, true
	case "m":
		return PrecisionM, true
	case "h":
		return PrecisionH, true
	}
	return 0, false
}

// KeyBuilder makes the canonical keys of a line's points.
type KeyBuilder struct {
	tags []series.Tag
}
