package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/rpc"
)

// Options of a Service. All are needed.
type Options struct {
	Node  *node.Node
	Hello func() handshake.Hello
	// Map returns the shard map that the node goes by; nil: none yet.
	Map func() *shardmap.Map
	// Disk returns the size of the data folder's disk and what is used of it, in bytes.
	Disk    func() (capacity, used uint64)
	Version string
	// MoveBytesPerSecond bounds what the node sends to others of its shards, and what it
	// fetches from them, each; 0: nothing does. It is only told.
	MoveBytesPerSecond uint64
	Now                func() time.Time
	Logger             *slog.Logger
}

// Service implements rpc.Node.
type Service struct {
	options Options
	node    *node.Node
	started time.Time
	exports *exports
	retired atomic.Pointer[map[string]bool] // incarnations
}

var _ rpc.Node = (*Service)(nil)

// New returns a service over a node. It must be closed before the node is.
func New(o Options) *Service {
	return &Service{options: o, node: o.Node, started: o.Now(), exports: newExports(o.Now, o.Logger)}
}

// Close releases what is open.
func (s *Service) Close() error { return s.exports.close() }

// Hello implements rpc.Node.
func (s *Service) Hello() handshake.Hello { return s.options.Hello() }

// SetIncarnations sets which data folders there are, so that retired ones are refused.
func (s *Service) SetIncarnations(byNode map[string][]shardmap.Incarnation) {
	retired := map[string]bool{}
	for _, list := range byNode {
		for _, incarnation := range list {
			if incarnation.Retired {
				retired[incarnation.ID] = true
			}
		}
	}
	s.retired.Store(&retired)
}

// Admit implements rpc.Node.
func (s *Service) Admit(caller handshake.Hello) error {
	if retired := s.retired.Load(); retired != nil && caller.Incarnation != "" && (*retired)[caller.Incarnation] {
		return fmt.Errorf("%w: %s of node %s", wire.ErrRetired, caller.Incarnation, caller.Node)
	}
	return nil
}

// Receive implements rpc.Node.
func (s *Service) Receive(from string, envelopes [][]byte) error {
	for _, envelope := range envelopes {
		s.node.Receive(from, envelope)
	}
	return nil
}

// Write implements rpc.Node.
func (s *Service) Write(ctx context.Context, frame *series.Frame, done func(rpc.WriteEnd)) {
	s.node.StartWrite(ctx, frame, func(parts []node.PartOutcome, err error) {
		done(&written{s, frame, parts, err})
	})
}

// written is a frame of which it is known what became of it.
type written struct {
	service *Service
	frame   *series.Frame
	parts   []node.PartOutcome
	err     error
}

// Outcomes implements rpc.WriteEnd.
func (w *written) Outcomes() ([]wire.PartOutcome, error) {
	if w.err != nil {
		return nil, w.err
	}
	out := make([]wire.PartOutcome, len(w.parts))
	for i := range w.parts {
		p := &w.parts[i]
		out[i] = wire.PartOutcome{Err: ofShard(w.frame.Parts[i].Shard, p.Err), Copies: p.Copies, Refused: p.Refused, Level: p.Level, Missing: p.Missing}
		if p.Err == nil {
			out[i].Defined = w.service.defined(w.frame, i, p.Refused)
		}
	}
	return out, nil
}

// defined returns the ids of a part's definitions.
func (s *Service) defined(frame *series.Frame, part int, refused []series.Refusal) (defined []series.Defined) {
	var r series.BatchReader
	r.Reset(frame.Parts[part].Batch)
	era := s.node.Era(frame.Parts[part].Shard)
	for n := 0; ; n++ {
		key, ok := r.NextDefinition()
		if !ok {
			return defined
		}
		if isRefused(refused, n) {
			continue
		}
		// A definition all of whose points were beyond retention has no series.
		if ref, known, err := s.node.LookupSeries(key); err == nil && known {
			defined = append(defined, series.Defined{Part: part, Definition: n, ID: ref.ID, Era: era})
		}
	}
}

func isRefused(refused []series.Refusal, definition int) bool {
	for i := range refused {
		if refused[i].Definition == definition {
			return true
		}
	}
	return false
}

// ofShard returns an error of a shard as it travels.
func ofShard(shard uint16, err error) error {
	var other *replica.NotLeaderError
	if errors.As(err, &other) {
		return &wire.NotLeaderError{Shard: shard, Leader: other.Leader}
	}
	return err
}

// TransferLeader implements rpc.Node.
func (s *Service) TransferLeader(_ context.Context, shard uint16, toNode string) error {
	return ofShard(shard, s.node.TransferLeader(shard, toNode))
}
