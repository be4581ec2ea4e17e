package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/origin"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/split"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// Writer takes frames. A Writer keeps neither the frame nor the context after it
// has returned: both are used again. Errors are of the kinds in package series;
// any other error counts as ErrUnavailable. Safe for concurrent use.
type Writer interface {
	Write(ctx context.Context, frame *series.Frame) (series.Outcome, error)
}

// ExemplarWriter keeps exemplars. It keeps none of the slices. Safe for concurrent use.
type ExemplarWriter interface {
	WriteExemplars(ctx context.Context, exemplars []series.Exemplar) (series.ExemplarOutcomes, error)
}

// MetadataKeeper remembers what metrics mean. It does not keep the slices. Safe for
// concurrent use.
type MetadataKeeper interface {
	KeepMetadata(database, metric []byte, kind string, help, unit []byte)
}

// Options configure a Server. Writer, Resolver and Shards are required; an empty
// address means no such listener.
type Options struct {
	HTTPAddress     string // host:port
	PutAddress      string // host:port, TCP
	LineAddress     string // host:port, TCP
	GraphiteAddress string // host:port, TCP
	UDPAddress      string // host:port

	// TLS is for the HTTP and TCP ports. Nil: they are without. A client's certificate
	// that it lets in counts as verified.
	TLS *tls.Config

	Writer   Writer
	Resolver split.Resolver // safe for concurrent use
	// Shards is the number of shards of the cluster, and ShardKey keys their choice.
	Shards   int
	ShardKey series.ShardKey
	// Generation changes when references that Resolver gave before may no longer
	// hold. Nil: they hold for ever.
	Generation func() uint64

	// Authenticator knows who calls. Nil: everybody may do everything.
	Authenticator access.Authenticator
	// DatabaseFromHeader: over HTTP only access.DatabaseHeader names the database, or the rights
	// of a user who has some on one database only; requests that name another are refused.
	DatabaseFromHeader bool
	// DatabasesJoined: questions of Other may name several databases, with access.DatabaseJoint between them.
	DatabasesJoined bool
	// Pages decides which requests of browsers are taken. Nil: those of pages of this server.
	Pages *origin.Policy
	// Meter has the accounts of databases: their rates, and what they use. Nil: there are
	// no rates.
	Meter *tenant.Meter
	// PutDatabase, LineDatabase and GraphiteDatabase are the databases of the TCP ports; "default", or
	// empty: the default one.
	PutDatabase, LineDatabase, GraphiteDatabase string

	// GraphiteNames make metrics and tags of Graphite's paths. Nil: paths are metrics.
	GraphiteNames *parse.GraphiteNames

	// ReplicaLabel is left out of what remote writes send: the label by which the Prometheus of a pair, which scrape the
	// same, tell who they are. Empty: all labels are kept.
	ReplicaLabel string

	// RefuseText: fields of line protocol that hold text are refused, and the others of their lines written. Otherwise
	// text is left out and counted.
	RefuseText bool

	// Exemplars takes those of writes whose samples are written. Nil: they are left out.
	Exemplars ExemplarWriter

	// Metadata is told what remote writes say of metrics. Nil: nobody is.
	Metadata MetadataKeeper

	// Audit is told of requests that are refused and of what others than writes do. Nil: nobody is.
	Audit *audit.Log

	// SignInPage is what a browser gets that asks for the page and has not shown who is there. Nil: a
	// line of text.
	SignInPage *SignInPage

	// Other serves every HTTP path that is not a write. Nil: they are not found.
	Other http.Handler

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are kept but not exported
	Clock      func() time.Time      // nil: time.Now
	Build      Build

	// Processors bounds the heavy work of requests. Nil: nothing does.
	Processors *processor.Pool

	// Budgets bound the memory of requests. Nil pools: by Limits.
	Budgets Budgets

	Limits Limits
	TCP    TCPOptions
	UDP    UDPOptions
}

// Build describes which program answers `version`, /ping and /health.
type Build struct {
	Version  string // "0.3.1"
	Revision string // short commit hash
	Date     string // of the build, for people
}

// Limits bound what clients may ask for. Zero means the default.
type Limits struct {
	Line                 parse.Limits  // of lines and series; ErrorsMax bounds the errors told to a client, too
	BodyBytesMax         int           // of a request's body as sent; default 32 MiB
	BodyBytesDecodedMax  int           // of the body decompressed; default 64 MiB
	WholeBytesMax        int           // of a body as sent that has to be in memory at once; default BodyBytesMax
	WholeDecodedBytesMax int           // of that decompressed; default BodyBytesDecodedMax
	ConnectionsMax       int           // per listener; default 10,000
	InFlightBytesMax     int64         // of bodies and chunks being read or written, and of what large ones become when they are parsed and encoded; default 128 MiB
	WaitingBytesMax      int64         // of lines and replies that wait on TCP; default a quarter of InFlightBytesMax
	KeptBytesMax         int64         // of memory that is used again; default half of InFlightBytesMax
	ReadsBytesMax        int64         // of bodies and answers of other requests; default a quarter of InFlightBytesMax, or room for one
	WritesMax            int           // parsed and written at once, on all ports; default 256. One holds about 1 MiB while it is parsed and, if it has new series or lines that were left out, until its answer
	HTTPReadTimeout      time.Duration // to receive one request; default 60 s
	HTTPIdleTimeout      time.Duration // between two requests; default 3 min
	HTTPAnswerTimeout    time.Duration // to send one answer, or one piece of a stream; default 60 s
	WriteTimeout         time.Duration // of one write, waiting for room included; default 10 s
	HTTPHeaderBytesMax   int           // of a request's line and headers; default 16 KiB
	OtherBodyBytesMax    int           // of a body for Options.Other; default 16 MiB
	OtherAnswerBytesHeld int           // of an answer of Options.Other held before it streams; default 64 KiB
}

// TCPOptions tune the TCP ports. Zero means the default.
type TCPOptions struct {
	ChunkBytes      int           // read, and written, in one turn of a connection; default 64 KiB
	ReplyBytesMax   int           // replies held for a client that does not read; default 64 KiB
	RetryDelayMin   time.Duration // after the first overload; doubles; default 5 ms
	RetryDelayMax   time.Duration // default 1 s
	RetryTimeout    time.Duration // then the chunk is dropped, counted and logged; default 30 s
	DrainBytesMax   int           // taken from a socket's buffer at shutdown; default 4 MiB
	KeepAlivePeriod time.Duration // of TCP; default 60 s
}

// UDPFormat describes what datagrams hold.
type UDPFormat uint8

// The formats of datagrams.
const (
	UDPPut  UDPFormat = iota // put lines
	UDPLine                  // line protocol
)

// UDPOptions tune the UDP port. Zero means the default.
type UDPOptions struct {
	Format             UDPFormat
	Database           string        // of all datagrams; "default", or empty: the default one
	User               string        // whose rights all datagrams have; needed where there is an Authenticator
	ReceiveBufferBytes int           // SO_RCVBUF; default 4 MiB, as far as the kernel allows
	BatchMax           int           // datagrams received by one system call; default 64
	RetryTimeout       time.Duration // of an overloaded write, then the batch is dropped and counted; default 1 s
}

// ErrOptions marks options that cannot work.
var ErrOptions = errors.New("ingest options")

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Pages == nil {
		o.Pages, _ = origin.New(origin.Options{}) // without names there is no wrong one
	}
	if o.Generation == nil {
		o.Generation = func() uint64 { return 0 }
	}
	if o.Meter == nil {
		o.Meter = tenant.NewMeter(tenant.MeterOptions{})
	}
	if o.Build.Version == "" {
		o.Build.Version = "unknown"
	}
	o.Limits.setDefaults()
	t := &o.TCP
	orDefault(&t.ChunkBytes, 64<<10)
	orDefault(&t.ReplyBytesMax, 64<<10)
	orDefault(&t.RetryDelayMin, 5*time.Millisecond)
	orDefault(&t.RetryDelayMax, time.Second)
	orDefault(&t.RetryTimeout, 30*time.Second)
	orDefault(&t.DrainBytesMax, 4<<20)
	orDefault(&t.KeepAlivePeriod, time.Minute)
	u := &o.UDP
	orDefault(&u.ReceiveBufferBytes, 4<<20)
	orDefault(&u.BatchMax, 64)
	orDefault(&u.RetryTimeout, time.Second)
}

func (l *Limits) setDefaults() {
	l.Line = l.Line.WithDefaults()
	orDefault(&l.BodyBytesMax, 32<<20)
	orDefault(&l.BodyBytesDecodedMax, 64<<20)
	orDefault(&l.WholeBytesMax, l.BodyBytesMax)
	orDefault(&l.WholeDecodedBytesMax, l.BodyBytesDecodedMax)
	orDefault(&l.ConnectionsMax, 10_000)
	orDefault(&l.InFlightBytesMax, 128<<20)
	orDefault(&l.WaitingBytesMax, l.InFlightBytesMax/4)
	orDefault(&l.KeptBytesMax, l.InFlightBytesMax/2)
	orDefault(&l.WritesMax, 256)
	orDefault(&l.HTTPReadTimeout, time.Minute)
	orDefault(&l.HTTPIdleTimeout, 3*time.Minute)
	orDefault(&l.HTTPAnswerTimeout, time.Minute)
	orDefault(&l.WriteTimeout, 10*time.Second)
	orDefault(&l.HTTPHeaderBytesMax, 16<<10)
	orDefault(&l.OtherBodyBytesMax, 16<<20)
	orDefault(&l.OtherAnswerBytesHeld, 64<<10)
	orDefault(&l.ReadsBytesMax, max(l.InFlightBytesMax/4, l.readBytes()))
}

func (o *Options) check() error {
	switch {
	case o.Writer == nil:
		return fmt.Errorf("%w: Writer is missing", ErrOptions)
	case o.Resolver == nil:
		return fmt.Errorf("%w: Resolver is missing", ErrOptions)
	case o.Shards < 1 || o.Shards > 1<<16:
		return fmt.Errorf("%w: Shards is %d, want 1 to 65536", ErrOptions, o.Shards)
	case o.Limits.Line.TagsMax > series.TagsMax:
		return fmt.Errorf("%w: Limits.Line.TagsMax is %d, want 1 to %d", ErrOptions, o.Limits.Line.TagsMax, series.TagsMax)
	case o.Limits.Line.KeyBytesMax > series.KeyBytesMax:
		return fmt.Errorf("%w: Limits.Line.KeyBytesMax is %d, want 1 to %d", ErrOptions, o.Limits.Line.KeyBytesMax, series.KeyBytesMax)
	case o.Limits.InFlightBytesMax < o.largestInput():
		return fmt.Errorf("%w: Limits.InFlightBytesMax is %d, but one largest input takes %d",
			ErrOptions, o.Limits.InFlightBytesMax, o.largestInput())
	case o.Authenticator != nil && o.UDPAddress != "" && o.UDP.User == "":
		return fmt.Errorf("%w: UDP has no way to show who sends; name the user whose rights all datagrams have", ErrOptions)
	case o.UDP.Format != UDPPut && o.UDP.Format != UDPLine:
		return fmt.Errorf("%w: UDP.Format is %d", ErrOptions, o.UDP.Format)
	}
	return o.checkPositive()
}

// largestInput returns the bytes in flight of one body that is read as a whole, as sent and
// decompressed, or of one chunk behind the start of a line, if that is more.
func (o *Options) largestInput() int64 {
	return max(
		int64(o.Limits.WholeBytesMax)+int64(o.Limits.WholeDecodedBytesMax)+4*parserSlack,
		int64(o.Limits.OtherBodyBytesMax)+2*parserSlack,
		int64(o.TCP.ChunkBytes)+int64(o.Limits.Line.LineBytesMax)+parserSlack,
		o.largestPickle(),
	)
}

// largestPickle returns the bytes in flight of a chunk behind the start of a frame of pickles.
func (o *Options) largestPickle() int64 {
	if o.GraphiteAddress == "" {
		return 0
	}
	return int64(o.TCP.ChunkBytes) + parse.PickleBytesMax + parse.PickleWorkBytesMax + 2*parserSlack
}

func (o *Options) checkPositive() error {
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"Limits.BodyBytesMax", int64(o.Limits.BodyBytesMax)},
		{"Limits.BodyBytesDecodedMax", int64(o.Limits.BodyBytesDecodedMax)},
		{"Limits.WholeBytesMax", int64(o.Limits.WholeBytesMax)},
		{"Limits.WholeDecodedBytesMax", int64(o.Limits.WholeDecodedBytesMax)},
		{"Limits.WritesMax", int64(o.Limits.WritesMax)},
		{"Limits.ConnectionsMax", int64(o.Limits.ConnectionsMax)},
		{"Limits.HTTPReadTimeout", int64(o.Limits.HTTPReadTimeout)},
		{"Limits.HTTPIdleTimeout", int64(o.Limits.HTTPIdleTimeout)},
		{"Limits.HTTPAnswerTimeout", int64(o.Limits.HTTPAnswerTimeout)},
		{"Limits.WriteTimeout", int64(o.Limits.WriteTimeout)},
		{"Limits.HTTPHeaderBytesMax", int64(o.Limits.HTTPHeaderBytesMax)},
		{"Limits.OtherBodyBytesMax", int64(o.Limits.OtherBodyBytesMax)},
		{"Limits.OtherAnswerBytesHeld", int64(o.Limits.OtherAnswerBytesHeld)},
		{"TCP.ChunkBytes", int64(o.TCP.ChunkBytes)},
		{"TCP.ReplyBytesMax", int64(o.TCP.ReplyBytesMax)},
		{"TCP.RetryDelayMin", int64(o.TCP.RetryDelayMin)},
		{"TCP.RetryDelayMax", int64(o.TCP.RetryDelayMax)},
		{"TCP.RetryTimeout", int64(o.TCP.RetryTimeout)},
		{"TCP.KeepAlivePeriod", int64(o.TCP.KeepAlivePeriod)},
		{"TCP.DrainBytesMax", int64(o.TCP.DrainBytesMax)},
		{"UDP.ReceiveBufferBytes", int64(o.UDP.ReceiveBufferBytes)},
		{"UDP.BatchMax", int64(o.UDP.BatchMax)},
		{"UDP.RetryTimeout", int64(o.UDP.RetryTimeout)},
	} {
		if v.value <= 0 {
			return fmt.Errorf("%w: %s is %d, want more than 0", ErrOptions, v.name, v.value)
		}
	}
	return nil
}

// readBytes returns what a largest request of Options.Other takes.
func (l *Limits) readBytes() int64 {
	return int64(l.OtherBodyBytesMax + 2*parserSlack + l.answerBytes())
}
