package target

import (
	"context"
	"errors"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// Protocol is a way to write.
type Protocol uint8

// The protocols.
const (
	HTTPLine Protocol = iota // line protocol in POST requests
	TCPPut                   // OpenTSDB put lines
	TCPLine                  // line protocol
)

// protocols are all protocols, in the order of reports.
var protocols = [...]Protocol{HTTPLine, TCPPut, TCPLine}

// Protocols returns all protocols in the order of reports.
func Protocols() []Protocol { return protocols[:] }

// String names the protocol as reports do.
func (p Protocol) String() string {
	switch p {
	case HTTPLine:
		return "HTTP line"
	case TCPPut:
		return "TCP put"
	default:
		return "TCP line"
	}
}

// Form is the text format of the protocol.
func (p Protocol) Form() workload.Form {
	if p == TCPPut {
		return workload.Put
	}
	return workload.Line
}

// ErrNotInstalled is returned for a peer whose program is not on this machine.
var ErrNotInstalled = errors.New("not installed")

// ErrStoresNothing is returned for questions to a server that stores nothing; see Sink.
var ErrStoresNothing = errors.New("it stores nothing")

// Addresses are where a server listens; a protocol that it does not speak is
// unused.
type Addresses struct {
	HTTP, Put, Line string
}

// Target describes a kind of server. Its methods may be called concurrently.
type Target interface {
	// Name is the one that the command line takes.
	Name() string
	// Version asks the program what it is; ErrNotInstalled if it is missing.
	Version(ctx context.Context) (string, error)
	// Command returns how to start the server with its data below dir. It may
	// write a configuration file there.
	Command(dir string, addresses Addresses, memoryLimitBytes int64) (harness.ProcessOptions, error)
	// ReadyPath answers 200 or 204 once the server serves.
	ReadyPath() string
	// Prepare is called once after the first start on an empty folder.
	Prepare(ctx context.Context, server *Server) error
	// Speaks reports whether the server takes the protocol.
	Speaks(protocol Protocol) bool
	// Fence is the text whose reply on a TCP connection shows that everything
	// before it was applied; "" where the end of the stream has to do.
	Fence(protocol Protocol) string
	// Applied waits until the points sent over the protocol since the server's
	// start have been applied. Targets whose fence is exact return at once.
	Applied(ctx context.Context, server *Server, protocol Protocol, points int64) error
	// Publish makes everything that was applied visible to queries, where that is
	// not the same.
	Publish(ctx context.Context, server *Server) error
	// WritePath is the path for line protocol with timestamps in seconds.
	WritePath() string
	// QueryPath is the path and query string that asks for q.
	QueryPath(q Query) string
	// Parse reads the answer to q.
	Parse(q Query, body []byte) (Answer, error)
	// Compact brings files into their final form, where the server can be asked to.
	Compact(ctx context.Context, server *Server) error
	// SeriesMax is the number of series above which the server is not measured
	// because it takes too long, with the reason; 0: no bound.
	SeriesMax() (int, string)
}

// Kind is what a query asks for.
type Kind uint8

// The kinds of query. All leave out what is at ToS and later.
const (
	Point       Kind = iota // the sample of one series at FromS
	Raw                     // all samples of one series
	Mean                    // one mean of each series, averaged over the series
	Minutes                 // means of whole minutes, averaged over the series
	EachMinutes             // means of whole minutes of each series
	Count                   // number of samples of all series
)

// All stands for every device or every sensor in a Query.
const All = -1

// Query is a question in no particular language.
type Query struct {
	Kind       Kind
	Form       workload.Form // how the data was written
	Device     int           // or All
	Sensor     int           // or All
	FromS, ToS int64         // seconds; a whole minute for Minutes and EachMinutes
}

// Answer is what a server said, reduced to what can be checked.
type Answer struct {
	Points int     // values in the answer
	Value  float64 // their mean; for Count their sum
}

// answerOf reduces values.
func answerOf(kind Kind, values []float64) Answer {
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	if kind != Count && len(values) > 0 {
		sum /= float64(len(values))
	}
	return Answer{Points: len(values), Value: sum}
}

// Preallocating is a Target that reserves files of fixed size ahead of their use.
type Preallocating interface {
	// Preallocated returns the bytes of a data folder in files that a server, compacted
	// and stopped, keeps for what it will write next.
	Preallocated(dataDir string) (int64, error)
}
