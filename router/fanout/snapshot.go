package fanout

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

const (
	// snapshotEndTimeout bounds how long the end of a snapshot waits for a node. What it does not reach ends by itself.
	snapshotEndTimeout = 10 * time.Second
	// snapshotLostAfter is how long a node that holds a part does not answer until the part counts as lost where others have taken
	// over its shards. The part may be there still: too early costs a backup another snapshot, too late holds it up.
	snapshotLostAfter = time.Second
	// snapshotNameMax bounds the name of a snapshot that a client sends: 1,024 nodes and 2,048 shards take about 200 KiB.
	snapshotNameMax = 1 << 20
)

// snapshotRun takes a snapshot of all shards.
type snapshotRun struct {
	gather

	calls      sync.WaitGroup // that nodes have not answered, also when the run does not wait for them any more
	collecting sync.Mutex
	parts      []*nodev1.SnapshotPart // guarded by collecting; also those without a shard
	over       bool                   // guarded by collecting; a part that comes now is not used
}

// TakeSnapshot has the leaders of all shards take snapshots, and returns a name that tells where each shard's is, so that
// any router can read it. Of each shard it has what there was at a moment within the call, and so every write and delete that was
// answered before. A node that comes to lead a shard meanwhile takes one more.
// What nodes have taken and no shard is read from is ended, and after an error all is; also when the call is given up. A whole snapshot
// does not wait for that. An error does, as the next try needs the room: for snapshotEndTimeout where nodes do not answer; there it
// ends by itself.
// Errors: wire.ErrVersion when a node is of a version without snapshots, wire.ErrRefused when one can make none.
func (c *Cluster) TakeSnapshot(ctx context.Context) (name string, err error) {
	r := &snapshotRun{}
	r.cluster, r.source, r.ask = c, c.Source(scan.Consistency{}), r.askNode
	if err = r.run(ctx, nil); err != nil {
		r.endUnused(ctx, nil)
		return "", err
	}
	used := r.whole()
	go r.endUnused(ctx, used)
	b, err := proto.Marshal(&nodev1.ClusterSnapshot{Parts: used})
	return base64.RawURLEncoding.EncodeToString(b), err
}

// whole returns the parts that shards are read from, once the run has ended: calls that it does not wait for bring no further ones.
func (r *snapshotRun) whole() (used []*nodev1.SnapshotPart) {
	r.collecting.Lock()
	defer r.collecting.Unlock()
	for _, p := range r.parts {
		if len(p.GetShards()) > 0 {
			used = append(used, p)
		}
	}
	return used
}

// endUnused ends the parts that are not used, and waits for all calls, which the end of the run has bounded. Each part is ended as soon as its
// node has answered, also while another one says nothing: it takes room that the next snapshot may need.
func (r *snapshotRun) endUnused(ctx context.Context, used []*nodev1.SnapshotPart) {
	r.collecting.Lock()
	r.over = true
	unused := slices.DeleteFunc(r.parts, func(p *nodev1.SnapshotPart) bool { return slices.Contains(used, p) })
	r.collecting.Unlock()
	r.giveUp(ctx, unused)
	r.calls.Wait()
}

// collect takes a part that a node has answered with.
func (r *snapshotRun) collect(ctx context.Context, part *nodev1.SnapshotPart) {
	r.collecting.Lock()
	late := r.over
	if !late {
		r.parts = append(r.parts, part)
	}
	r.collecting.Unlock()
	if late {
		r.giveUp(ctx, []*nodev1.SnapshotPart{part})
	}
}

func (r *snapshotRun) giveUp(ctx context.Context, unused []*nodev1.SnapshotPart) {
	if err := r.cluster.endParts(context.WithoutCancel(ctx), unused); err != nil {
		r.cluster.options.Logger.Warn("a snapshot that is not needed stays on a node until it ends by itself", "error", err)
	}
}

// take has a node take a snapshot. When the call is given up, an answer that comes within snapshotEndTimeout is kept as that of a
// part without shards: only who knows its name can end it.
func (r *snapshotRun) take(ctx context.Context, o *group) (*nodev1.TakeSnapshotResponse, *nodev1.SnapshotPart, error) {
	type answer struct {
		m    *nodev1.TakeSnapshotResponse
		part *nodev1.SnapshotPart
		err  error
	}
	answers := make(chan answer, 1)
	shards := shardsOf(o.reads)
	r.calls.Go(func() {
		call, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(snapshotEndTimeout, cancel) })()
		m, err := o.node.reads.TakeSnapshot(call, &nodev1.TakeSnapshotRequest{Shards: shards})
		part := &nodev1.SnapshotPart{Node: o.node.id, Incarnation: o.node.incarnation, Process: m.GetProcess(), Name: m.GetName()}
		if err == nil && part.GetName() != "" {
			r.collect(ctx, part)
		}
		answers <- answer{m, part, err}
	})
	select {
	case a := <-answers:
		return a.m, a.part, a.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

func (r *snapshotRun) askNode(ctx context.Context, o *group) error {
	var part *nodev1.SnapshotPart
	m, err := await(o.watchdog, func() (m *nodev1.TakeSnapshotResponse, err error) {
		m, part, err = r.take(ctx, o)
		return m, err
	})
	if errors.Is(err, wire.ErrVersion) {
		return fmt.Errorf("node %s is of a version without snapshots of clusters: %w", o.node.id, err)
	}
	if err != nil {
		return err
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

// parseSnapshot returns the parts of a snapshot of so many shards, by its name, which a client may have made up: there are no more
// parts than shards, and each shard is in one. That a node has the part, and the part the shard, the node checks.
// Errors: wire.ErrNotFound for what is no name of one.
func parseSnapshot(name string, shards int) (byShard []*nodev1.SnapshotPart, err error) {
	if len(name) > snapshotNameMax {
		return nil, fmt.Errorf("%w: a name of %d bytes is not that of a snapshot", wire.ErrNotFound, len(name))
	}
	b, err := base64.RawURLEncoding.DecodeString(name)
	if err == nil {
		err = checkFields(b, shards)
	}
	m := &nodev1.ClusterSnapshot{}
	if err == nil {
		err = proto.Unmarshal(b, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: this is not the name of a snapshot of this cluster: %w", wire.ErrNotFound, err)
	}
	byShard = make([]*nodev1.SnapshotPart, shards)
	for _, p := range m.GetParts() {
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

// checkFields bounds the fields of a message before memory is taken for each.
func checkFields(b []byte, most int) error {
	for n := 0; len(b) > 0; n++ {
		_, _, length := protowire.ConsumeField(b)
		if length < 0 {
			return protowire.ParseError(length)
		}
		if n == most {
			return fmt.Errorf("it has more than %d parts", most)
		}
		b = b[length:]
	}
	return nil
}

// partsOf returns the parts of a snapshot by shard. Errors: those of parseSnapshot, errNoMap.
func (c *Cluster) partsOf(name string) (byShard []*nodev1.SnapshotPart, err error) {
	v := c.current.Load()
	if len(v.rows) == 0 {
		return nil, errNoMap
	}
	return parseSnapshot(name, len(v.rows))
}

// SnapshotOf returns what a snapshot has, until done is called. It answers scans and lists of names. Each shard is read from the
// process that holds it, whoever leads it meanwhile. Errors: wire.ErrNotFound, also those of the reads when a node
// has been restarted, has given its part up, or does not answer for Limits.ReadTimeout, or for snapshotLostAfter while others lead
// its shards.
func (c *Cluster) SnapshotOf(name string) (source scan.Source, done func(), err error) {
	s := c.Source(scan.Consistency{})
	s.parts, err = c.partsOf(name)
	return s, func() {}, err
}

// EndSnapshot ends the snapshots of all nodes. Parts on nodes that do not answer end by themselves: to ask again would hold up
// who has lost such a node, and takes another snapshot. Errors: those of nodes that answer.
func (c *Cluster) EndSnapshot(ctx context.Context, name string) error {
	byShard, err := c.partsOf(name)
	if errors.Is(err, wire.ErrNotFound) {
		return nil
	}
	var parts []*nodev1.SnapshotPart
	for _, p := range byShard {
		if !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	return errors.Join(err, c.endParts(ctx, parts))
}

// endParts ends parts. Errors: those of nodes that answer.
func (c *Cluster) endParts(ctx context.Context, parts []*nodev1.SnapshotPart) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotEndTimeout)
	defer cancel()
	v := c.current.Load()
	failures := make([]error, len(parts))
	// Nodes are asked at once, each for one part after the other, of which there may be as many as shards.
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
				failures[i] = c.endPart(ctx, n, parts[i])
				if errors.Is(failures[i], series.ErrUnavailable) || ctx.Err() != nil {
					c.options.Logger.Warn("a node does not answer; its part of a snapshot ends by itself", "node", n.id, "error", failures[i])
					failures[i] = nil
					return
				}
			}
		})
	}
	calls.Wait()
	return errors.Join(failures...)
}

// endPart ends one part, within about Limits.ProbeTimeout where the node does not answer.
func (c *Cluster) endPart(ctx context.Context, n *node, p *nodev1.SnapshotPart) error {
	watched, w, done := c.watch(ctx, n)
	defer done()
	_, err := await(w, func() (*nodev1.EndSnapshotResponse, error) {
		return n.reads.EndSnapshot(handshake.WithProcess(watched, p.GetProcess()), &nodev1.EndSnapshotRequest{Name: p.GetName()})
	})
	if errors.Is(err, wire.ErrWrongNode) {
		return nil // it ended with its process
	}
	return err
}
