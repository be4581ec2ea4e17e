package fanout

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

const (
	// snapshotEndTimeout bounds how long the end of a snapshot waits for a node. What it does not reach ends by itself.
	snapshotEndTimeout = 10 * time.Second
	// snapshotNameMax bounds the name of a snapshot that a client sends: 1,024 nodes and 2,048 shards take about 200 KiB.
	snapshotNameMax = 1 << 20
)

// snapshotRun takes a snapshot of all shards.
type snapshotRun struct {
	gather

	collecting sync.Mutex
	parts      []*nodev1.SnapshotPart // guarded by collecting
}

// TakeSnapshot has the leaders of all shards take snapshots, and returns a name that tells where each shard's is, so that
// any router can read it. Of each shard it has what there was at a moment within the call, and so every write and delete that was
// answered before. A node that comes to lead a shard meanwhile takes one more.
// Errors: wire.ErrVersion when a node is of a version without snapshots, wire.ErrRefused when one can make none; then, and after all
// other errors, those that were taken are ended.
func (c *Cluster) TakeSnapshot(ctx context.Context) (name string, err error) {
	r := &snapshotRun{}
	r.cluster, r.source, r.ask = c, c.Source(scan.Consistency{}), r.askNode
	err = r.run(ctx, nil)
	if err == nil {
		var b []byte
		if b, err = proto.Marshal(&nodev1.ClusterSnapshot{Parts: r.parts}); err == nil {
			return base64.RawURLEncoding.EncodeToString(b), nil
		}
	}
	return "", errors.Join(err, c.endParts(context.WithoutCancel(ctx), r.parts))
}

func (r *snapshotRun) askNode(ctx context.Context, o *group) error {
	m, err := await(o.watchdog, func() (*nodev1.TakeSnapshotResponse, error) {
		return o.node.reads.TakeSnapshot(ctx, &nodev1.TakeSnapshotRequest{Shards: shardsOf(o.reads)})
	})
	if errors.Is(err, wire.ErrVersion) {
		return fmt.Errorf("node %s is of a version without snapshots of clusters: %w", o.node.id, err)
	}
	if err != nil {
		return err
	}
	part := &nodev1.SnapshotPart{Node: o.node.id, Incarnation: o.node.incarnation, Process: m.GetProcess(), Name: m.GetName()}
	if part.GetName() != "" {
		r.collecting.Lock()
		r.parts = append(r.parts, part) // also without a shard: it has to be ended
		r.collecting.Unlock()
	}
	for _, e := range m.GetEnds() {
		read, shardErr, err := o.findEnd(e)
		if err != nil {
			return err
		}
		if shardErr == nil && part.GetName() == "" {
			return fmt.Errorf("%w: no snapshot of shard %d", wire.ErrInternal, read.shard)
		}
		if shardErr == nil {
			part.Shards = append(part.GetShards(), e.GetShard())
		}
		r.end(o, read, shardErr)
	}
	return nil
}

// errSnapshotEnded refuses reads of a snapshot of which a part is gone.
var errSnapshotEnded = fmt.Errorf("%w: the snapshot has ended", wire.ErrNotFound)

// parseSnapshot returns the parts of a snapshot by its name. Errors: wire.ErrNotFound for what is no name of one.
func parseSnapshot(name string) ([]*nodev1.SnapshotPart, error) {
	if len(name) > snapshotNameMax {
		return nil, fmt.Errorf("%w: a name of %d bytes is not that of a snapshot", wire.ErrNotFound, len(name))
	}
	b, err := base64.RawURLEncoding.DecodeString(name)
	m := &nodev1.ClusterSnapshot{}
	if err == nil {
		err = proto.Unmarshal(b, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: this is not the name of a snapshot of a cluster: %w", wire.ErrNotFound, err)
	}
	return m.GetParts(), nil
}

// partsByShard returns the part that has each of so many shards. Errors: wire.ErrNotFound when a shard is in none, or in several.
func partsByShard(parts []*nodev1.SnapshotPart, shards int) ([]*nodev1.SnapshotPart, error) {
	byShard := make([]*nodev1.SnapshotPart, shards)
	for _, p := range parts {
		for _, shard := range p.GetShards() {
			if p.GetName() == "" || int64(shard) >= int64(shards) || byShard[shard] != nil {
				return nil, fmt.Errorf("%w: this is not the name of a snapshot of this cluster: shard %d", wire.ErrNotFound, shard)
			}
			byShard[shard] = p
		}
	}
	if shard := slices.Index(byShard, nil); shard >= 0 {
		return nil, fmt.Errorf("%w: the snapshot is without shard %d", wire.ErrNotFound, shard)
	}
	return byShard, nil
}

// SnapshotOf returns what a snapshot has, until done is called. It answers scans and lists of names. Each shard is read from the
// process that holds it, whoever leads it meanwhile. Errors: wire.ErrNotFound, also those of the reads when a node
// has been restarted, has given its part up, or does not answer for Limits.ReadTimeout.
func (c *Cluster) SnapshotOf(name string) (source scan.Source, done func(), err error) {
	parts, err := parseSnapshot(name)
	if err != nil {
		return nil, nil, err
	}
	v := c.current.Load()
	if len(v.rows) == 0 {
		return nil, nil, errNoMap
	}
	s := c.Source(scan.Consistency{})
	s.parts, err = partsByShard(parts, len(v.rows))
	return s, func() {}, err
}

// EndSnapshot ends the snapshots of all nodes. Errors: those of nodes that were not reached, whose parts end by themselves.
func (c *Cluster) EndSnapshot(ctx context.Context, name string) error {
	parts, err := parseSnapshot(name)
	if errors.Is(err, wire.ErrNotFound) {
		return nil
	}
	return errors.Join(err, c.endParts(ctx, parts))
}

func (c *Cluster) endParts(ctx context.Context, parts []*nodev1.SnapshotPart) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotEndTimeout)
	defer cancel()
	v := c.current.Load()
	failures := make([]error, len(parts))
	// One node after the other has its parts ended, and nodes are asked at once, as a client may have made up any number of parts.
	byNode := map[*node][]int{}
	for i, p := range parts {
		if n := v.holder(p); n != nil { // else its process is gone, and the snapshot too
			byNode[n] = append(byNode[n], i)
		}
	}
	var calls sync.WaitGroup
	for n, list := range byNode {
		calls.Go(func() {
			for _, i := range list {
				if ctx.Err() == nil {
					_, failures[i] = n.reads.EndSnapshot(handshake.WithProcess(ctx, parts[i].GetProcess()), &nodev1.EndSnapshotRequest{Name: parts[i].GetName()})
				}
				if errors.Is(failures[i], wire.ErrWrongNode) {
					failures[i] = nil // it ended with its process
				}
			}
		})
	}
	calls.Wait()
	return errors.Join(failures...)
}

// holder returns the node that holds a part of a snapshot; nil: it is not of the cluster any more.
func (v *view) holder(p *nodev1.SnapshotPart) *node {
	if n := v.nodes[p.GetNode()]; n != nil && n.incarnation == p.GetIncarnation() {
		return n
	}
	return nil
}

// partOf returns the part of a snapshot that a call is for; nil: it is for what there is now.
func (s *Source) partOf(o *group) *nodev1.SnapshotPart { return s.partOfShard(o.reads[0].shard) }

func (s *Source) partOfShard(shard uint16) *nodev1.SnapshotPart {
	if s.parts == nil {
		return nil
	}
	return s.parts[shard]
}

// ofPart returns the context of a call for a part of a snapshot, which only the process that holds it may answer, and the
// part's name; nil: none is read.
func ofPart(ctx context.Context, p *nodev1.SnapshotPart) (of context.Context, name string) {
	if p == nil {
		return ctx, ""
	}
	return handshake.WithProcess(ctx, p.GetProcess()), p.GetName()
}
