package fanout

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/handshake"
)

// Options of a Cluster. Self is required.
type Options struct {
	// Self returns who this process is, now: it may learn its cluster's identity later.
	Self func() handshake.Hello
	// Credentials are for connections to nodes, whose certificates Names checks; nil: no TLS.
	Credentials credentials.TransportCredentials
	Names       handshake.Names
	Logger      *slog.Logger          // nil: nothing is logged
	Registerer  prometheus.Registerer // nil: metrics are kept but not exported
	Limits      Limits
}

// Limits bound what a Cluster keeps and how long it tries. Zero means the default.
type Limits struct {
	WriteTimeout     time.Duration // of one frame, waiting for room included; default 10 s
	AttemptTimeout   time.Duration // of a write: then another node is asked; default 2 s
	ProbeAfter       time.Duration // then a node that says nothing is asked whether it is there; default 250 ms, at most AttemptTimeout
	ProbeTimeout     time.Duration // in which a node that is there says so; default 1 s
	ReadTimeout      time.Duration // that a shard may be without an answer; default 10 s
	BackoffMin       time.Duration // before a second attempt; doubles; default 10 ms
	BackoffMax       time.Duration // default 100 ms: an election takes about as long
	WritesMax        int           // frames in flight; default 256
	WriteBytesMax    int64         // of frames in flight; default 128 MiB
	StreamBytesMax   int64         // of frames that wait for, or on, one stream; default 32 MiB
	Streams          int           // for writes, to each node; default 1: on more of them fewer frames go together
	ReadCallsMax     int           // of one read at once; default ReadCallsDefault
	ReadBytesMax     int64         // that one read holds until a shard or node has answered; default 64 MiB
	SeriesBytesHeld  int           // of one series until it is complete, for each call of a scan; default 4 MiB
	ResolverBytesMax int64         // default 256 MiB
}

// ReadCallsDefault is the default of Limits.ReadCallsMax.
const ReadCallsDefault = 16

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
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
	l := &o.Limits
	orDefault(&l.WriteTimeout, 10*time.Second)
	orDefault(&l.AttemptTimeout, 2*time.Second)
	orDefault(&l.ProbeAfter, min(250*time.Millisecond, l.AttemptTimeout))
	orDefault(&l.ProbeTimeout, time.Second)
	orDefault(&l.ReadTimeout, 10*time.Second)
	orDefault(&l.BackoffMin, 10*time.Millisecond)
	orDefault(&l.BackoffMax, 100*time.Millisecond)
	orDefault(&l.WritesMax, 256)
	orDefault(&l.WriteBytesMax, 128<<20)
	orDefault(&l.StreamBytesMax, 32<<20)
	orDefault(&l.Streams, 1)
	orDefault(&l.ReadCallsMax, ReadCallsDefault)
	orDefault(&l.ReadBytesMax, 64<<20)
	orDefault(&l.SeriesBytesHeld, 4<<20)
	orDefault(&l.ResolverBytesMax, 256<<20)
}

// backoff is how long shards that failed wait for their next attempt.
func (l *Limits) backoff() backoff.Exponential {
	return backoff.Exponential{Min: l.BackoffMin, Max: l.BackoffMax}
}
