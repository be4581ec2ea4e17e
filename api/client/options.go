package client

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/series"
)

// Options configure a Client. Endpoints is required; zero means the default.
type Options struct {
	// Endpoints are the addresses, host:port, of the gRPC ports of routers, or of one
	// standalone server.
	Endpoints []string
	// Credentials are for TLS, as transport.NewTLS(…).Credentials() returns them from
	// files that may be rotated. Nil: no TLS.
	Credentials credentials.TransportCredentials
	// Token, or User and Password, say who calls, where the server wants to know; a
	// certificate of Credentials may say it, too. New refuses to send them without TLS
	// beyond the loopback, unless InsecureCredentials is set.
	Token          string
	User, Password string
	// InsecureCredentials lets them cross the network as they are, for everybody on the way
	// to read.
	InsecureCredentials bool
	// TokenSource returns the token for each call, instead of Token: one that is rotated. It
	// must not wait. Its error is that of the call.
	TokenSource func() (string, error)
	// Name identifies the caller, for the server's logs; default "tickmesh-go".
	Name string
	// AttemptTimeout bounds one attempt of a write, or of a call that answers at once;
	// default 10 s.
	AttemptTimeout time.Duration
	// WriteTimeout bounds all attempts to write one batch; default 60 s.
	WriteTimeout time.Duration
	// WriteLevel is how many replicas are waited for: series.LevelMajority, or
	// series.LevelAll for every full voter too. A batch that one of them does not have
	// within WriteTimeout ends with ErrUnavailable, though it is written and will not be
	// undone.
	WriteLevel series.Level
	// CallTimeout bounds all attempts of other calls that answer at once, where their
	// context has no deadline; default 30 s. Queries have that of their context.
	CallTimeout time.Duration
	// Waits between attempts grow from RetryDelayMin to RetryDelayMax; default 20 ms
	// and 2 s.
	RetryDelayMin, RetryDelayMax time.Duration

	Logger *slog.Logger // nil: nothing is logged
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (o *Options) setDefaults() {
	if o.Name == "" {
		o.Name = "tickmesh-go"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	orDefault(&o.AttemptTimeout, 10*time.Second)
	orDefault(&o.WriteTimeout, time.Minute)
	orDefault(&o.CallTimeout, 30*time.Second)
	orDefault(&o.RetryDelayMin, 20*time.Millisecond)
	orDefault(&o.RetryDelayMax, 2*time.Second)
}

func (o *Options) check() error {
	if len(o.Endpoints) == 0 {
		return fmt.Errorf("%w: no endpoints", ErrOptions)
	}
	if slices.Contains(o.Endpoints, "") {
		return fmt.Errorf("%w: an endpoint without an address", ErrOptions)
	}
	for _, d := range []time.Duration{o.AttemptTimeout, o.WriteTimeout, o.CallTimeout, o.RetryDelayMin, o.RetryDelayMax} {
		if d < 0 {
			return fmt.Errorf("%w: a time of %v", ErrOptions, d)
		}
	}
	if err := o.checkCaller(); err != nil {
		return err
	}
	if o.WriteLevel > series.LevelAll {
		return fmt.Errorf("%w: WriteLevel is %d", ErrOptions, o.WriteLevel)
	}
	if o.RetryDelayMin > o.RetryDelayMax {
		return fmt.Errorf("%w: RetryDelayMin is longer than RetryDelayMax", ErrOptions)
	}
	return nil
}

// WriterOptions configure a Writer. Zero means the default.
type WriterOptions struct {
	// A batch is sent when it has BatchPoints samples (default 10,000) or BatchBytes
	// bytes (default 1 MiB), or is BatchDelay old (default 1 s).
	BatchPoints int
	BatchBytes  int
	BatchDelay  time.Duration
	// BufferPoints bounds the samples that the writer holds, those on their way too;
	// default ten batches.
	BufferPoints int
	// FailWhenFull makes Append fail with ErrBufferFull instead of waiting for room.
	FailWhenFull bool
	// BatchesInFlight is how many batches are on their way at once; default 1. With
	// more than one, samples with one series and time in different batches may be
	// written in any order.
	BatchesInFlight int
	// OnError is told of each batch, or series of it, that is given up, as it
	// happens, from the writer's goroutines. Flush and Close tell it too.
	OnError func(error)
}

// Bounds of WriterOptions; a batch fits a message and a stream's handles.
const (
	BatchPointsMax     = 50_000
	BatchBytesMax      = 3 << 20
	BatchesInFlightMax = 64
)

func (o *WriterOptions) setDefaults() {
	orDefault(&o.BatchPoints, 10_000)
	orDefault(&o.BatchBytes, 1<<20)
	orDefault(&o.BatchDelay, time.Second)
	orDefault(&o.BufferPoints, 10*o.BatchPoints)
	orDefault(&o.BatchesInFlight, 1)
}

func (o *WriterOptions) check() error {
	switch {
	case o.BatchPoints < 1 || o.BatchPoints > BatchPointsMax:
		return fmt.Errorf("%w: BatchPoints is %d, want 1 to %d", ErrOptions, o.BatchPoints, BatchPointsMax)
	case o.BatchBytes < 1 || o.BatchBytes > BatchBytesMax:
		return fmt.Errorf("%w: BatchBytes is %d, want 1 to %d", ErrOptions, o.BatchBytes, BatchBytesMax)
	case o.BatchesInFlight < 1 || o.BatchesInFlight > BatchesInFlightMax:
		return fmt.Errorf("%w: BatchesInFlight is %d, want 1 to %d", ErrOptions, o.BatchesInFlight, BatchesInFlightMax)
	case o.BufferPoints < 1:
		return fmt.Errorf("%w: BufferPoints is %d", ErrOptions, o.BufferPoints)
	case o.BatchDelay < 0:
		return fmt.Errorf("%w: BatchDelay is %v", ErrOptions, o.BatchDelay)
	}
	return nil
}
