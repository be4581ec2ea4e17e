package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// Writer takes frames. It keeps neither the frame nor the context after it has
// returned. Errors are of the kinds in package series; any other error counts as
// ErrUnavailable. Safe for concurrent use.
type Writer interface {
	Write(ctx context.Context, frame *series.Frame) (series.Outcome, error)
}

// Resolver finds the series that exist; see split.Resolver. Safe for concurrent use.
type Resolver interface {
	Resolve(hint uint32, keys []series.Key, refs []series.Ref)
}

// Cluster describes the cluster and changes what is desired of its nodes. Errors are
// of the kinds in package wire: ErrNotFound for an unknown node, ErrRefused,
// with the reason, for what would lose copies or space. Safe for concurrent use.
type Cluster interface {
	Status(ctx context.Context, withoutShards bool) (*tickmeshv1.GetStatusResponse, error)
	Drain(ctx context.Context, node string, dryRun bool) (*tickmeshv1.DrainResponse, error)
	Undrain(ctx context.Context, node string) error
	Forecast(ctx context.Context, request *tickmeshv1.ForecastRequest) (*tickmeshv1.ForecastResponse, error)
	Recover(ctx context.Context, request *tickmeshv1.RecoverRequest) (*tickmeshv1.RecoverResponse, error)
}

// Snapshots keep what is there at a moment. Errors are of the kinds in packages series and wire: wire.ErrNotFound for a
// snapshot that has ended. Safe for concurrent use.
type Snapshots interface {
	TakeSnapshot(ctx context.Context) (name string, err error)
	SnapshotOf(name string) (source scan.Source, done func(), err error)
	EndSnapshot(ctx context.Context, name string) error
}

// Options configure a Server. Writer, Resolver, Shards, Source, Deleter and Cluster
// are required.
type Options struct {
	Writer   Writer
	Resolver Resolver
	// Shards is the number of shards of the cluster, 1 to 65,536, and ShardKey keys their
	// choice.
	Shards   int
	ShardKey series.ShardKey
	// Generation changes when references that Resolver gave before may no longer
	// hold. Nil: they hold for ever.
	Generation func() uint64

	Source  scan.Source
	Deleter scan.Deleter
	// RawFrom returns since when all samples of a metric are kept, milliseconds since 1970 UTC, and math.MinInt64 where all are. Nil:
	// all are.
	RawFrom func(database, metric string) (timeMs int64)
	// WithConsistency returns the source for one read with a consistency, and a function that
	// returns, once the read has ended, the shards that its answer lacks. Nil: Source
	// answers these reads too, and nothing is missing.
	WithConsistency func(scan.Consistency) (source scan.Source, missing func() []uint16)

	// Snapshots are read like Source. Nil: none are made.
	Snapshots Snapshots

	// Admission bounds queries. Nil: one of its own, with defaults. Source and what WithConsistency
	// returns should be read through it.
	Admission *admission.Controller
	// Processors bounds the heavy work of queries. Nil: nothing does.
	Processors *processor.Pool

	// Authenticator identifies callers. Nil: everybody may do everything.
	Authenticator access.Authenticator
	// Tokens keeps the tokens that callers make. Nil: there are no users, and no tokens.
	Tokens Tokens
	// DatabaseFromHeader: only the metadata access.DatabaseHeader names the database of a call,
	// or the rights of a user who has some on one database only.
	DatabaseFromHeader bool
	// DatabasesJoined: names over HTTP may be of several databases, and so mean none over gRPC.
	DatabasesJoined bool
	// Meter has the accounts of databases: their rates, and what they use. Nil: there are
	// no rates.
	Meter *tenant.Meter

	Cluster     Cluster
	ClusterName string
	Version     string // of the program, for people

	// Writes and Reads bound the memory of messages and of what they become. Nil: pools of
	// Limits.InFlightBytesMax.
	Writes, Reads *budget.Pool

	// Audit is told of calls that are refused and of what others than writes do. Nil: nobody is.
	Audit *audit.Log

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are kept but not exported
	Limits     Limits
}

// Limits bound what clients may ask for. Zero means the default.
type Limits struct {
	MessageBytesMax  int           // of one message from a client; default 4 MiB
	HandlesMax       int           // of one stream; default 65,536
	SessionKeysMax   int           // bytes of the keys of one stream's handles; default wire.SessionKeyBytesMax
	StreamWritesMax  int           // batches of one stream that are written at once; default 8
	MessageTimeout   time.Duration // for the bytes of one message; default 60 s
	InFlightBytesMax int64         // of messages, sessions and batches being written, and as many of other messages, where Options has no pools; default 256 MiB
	CallsMax         int           // at once, streams that wait too; default 4,096
	TagsMax          int           // of one series; default 64
	KeyBytesMax      int           // of one series; default 8 KiB
	WriteTimeout     time.Duration // of one batch; default 10 s
}

// ErrOptions marks options that cannot work.
var ErrOptions = errors.New("API options")

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
	if o.Generation == nil {
		o.Generation = func() uint64 { return 0 }
	}
	if o.Meter == nil {
		o.Meter = tenant.NewMeter(tenant.MeterOptions{})
	}
	if o.Admission == nil {
		o.Admission = admission.New(admission.Options{})
	}
	l := &o.Limits
	orDefault(&l.MessageBytesMax, 4<<20)
	orDefault(&l.HandlesMax, 1<<16)
	orDefault(&l.SessionKeysMax, wire.SessionKeyBytesMax)
	orDefault(&l.StreamWritesMax, 8)
	orDefault(&l.MessageTimeout, time.Minute)
	orDefault(&l.InFlightBytesMax, 256<<20)
	orDefault(&l.CallsMax, 4096)
	orDefault(&l.TagsMax, 64)
	orDefault(&l.KeyBytesMax, 8<<10)
	orDefault(&l.WriteTimeout, 10*time.Second)
	if o.Writes == nil {
		o.Writes = budget.New(l.InFlightBytesMax, l.WriteTimeout)
	}
	if o.Reads == nil {
		o.Reads = budget.New(l.InFlightBytesMax, l.WriteTimeout)
	}
}

func (o *Options) check() error {
	switch {
	case o.Writer == nil || o.Resolver == nil:
		return fmt.Errorf("%w: Writer and Resolver are needed", ErrOptions)
	case o.Source == nil || o.Deleter == nil || o.Cluster == nil:
		return fmt.Errorf("%w: Source, Deleter and Cluster are needed", ErrOptions)
	case o.Shards < 1 || o.Shards > 1<<16:
		return fmt.Errorf("%w: Shards is %d, want 1 to 65536", ErrOptions, o.Shards)
	case o.Limits.KeyBytesMax > series.KeyBytesMax || o.Limits.TagsMax > series.TagsMax:
		return fmt.Errorf("%w: KeyBytesMax is %d and TagsMax %d, want at most %d and %d",
			ErrOptions, o.Limits.KeyBytesMax, o.Limits.TagsMax, series.KeyBytesMax, series.TagsMax)
	}
	l := &o.Limits
	for _, v := range []int64{int64(l.MessageBytesMax), int64(l.HandlesMax), int64(l.SessionKeysMax), int64(l.StreamWritesMax),
		l.InFlightBytesMax, int64(l.MessageTimeout), int64(l.CallsMax), int64(l.TagsMax), int64(l.KeyBytesMax), int64(l.WriteTimeout)} {
		if v <= 0 {
			return fmt.Errorf("%w: a limit is %d, want more than 0", ErrOptions, v)
		}
	}
	return nil
}
