package fanout

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node/rpc"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// TakeSnapshot keeps nothing: a fake's snapshot is what its memory has, and tells which node took it.
func (n *fakeNode) TakeSnapshot(ctx context.Context, shards []uint16) (name string, ends []rpc.ShardEnd, err error) {
	if n.old.Load() {
		return "", nil, wire.ErrVersion
	}
	for _, shard := range shards {
		end := rpc.ShardEnd{Shard: shard, Err: n.serves(shard, 0)}
		if end.Err == nil {
			name = "of " + n.id
		}
		ends = append(ends, end)
	}
	if name != "" {
		n.kept.Add(1)
		if n.onTaken != nil {
			n.onTaken(ctx)
		}
	}
	return name, ends, nil
}

func (n *fakeNode) EndSnapshot(_ context.Context, name string) error {
	if name != "of "+n.id {
		return fmt.Errorf("%w: %s is not here", wire.ErrInternal, name)
	}
	n.kept.Add(-1)
	return nil
}

// servesContents reports why a fake does not read a shard: of a snapshot it reads its own alone, whoever leads.
func (n *fakeNode) servesContents(shard uint16, stalenessMaxMs uint64, snapshot string) error {
	if snapshot == "" {
		return n.serves(shard, stalenessMaxMs)
	}
	if n.kept.Load() == 0 || snapshot != "of "+n.id {
		return fmt.Errorf("%w: %s", wire.ErrNotFound, snapshot)
	}
	return nil
}

// TestSnapshots: each shard of a snapshot is read where it was taken, also once others lead, and the end of the snapshot ends
// all parts. A node that is of an older version, and one that has given its part up, refuse it.
func TestSnapshots(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond})
	w.fill(c, 40, 3)
	ctx := t.Context()
	everything := &scan.Request{Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Parallel: 1}
	read := func(s scan.Source) (samples int, err error) {
		err = s.Scan(ctx, everything, func(_ int, chunk *scan.Chunk) error { samples += len(chunk.Times); return nil })
		return samples, err
	}
	want, err := read(c.Source(scan.Consistency{}))
	if err != nil || want == 0 {
		t.Fatal(want, err)
	}
	w.setFaults(faults{refuse: 3, hideLeader: 3})
	name, err := c.TakeSnapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.setFaults(faults{})
	w.mu.Lock()
	for shard := range w.leader {
		w.leader[shard] = (w.leader[shard] + 1) % len(w.nodes)
	}
	w.mu.Unlock()
	source, done, err := c.SnapshotOf(name)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if got, err := read(source); err != nil || got != want {
		t.Errorf("%d samples instead of %d, %v", got, want, err)
	}
	if databases, err := source.Databases(ctx); err != nil || len(databases) == 0 {
		t.Errorf("databases %q, %v", databases, err)
	}
	if err := c.EndSnapshot(ctx, name); err != nil {
		t.Error(err)
	}
	checkNoneKept(t, w)
	if _, err := read(source); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("after its end: %v", err)
	}
	w.nodes[1].old.Store(true)
	if _, err := c.TakeSnapshot(ctx); !errors.Is(err, wire.ErrVersion) {
		t.Errorf("with a node of an older version: %v", err)
	}
	checkNoneKept(t, w)
}

// TestSnapshotThatIsGivenUp: after the call is given up no node keeps anything, also one that answers later.
func TestSnapshotThatIsGivenUp(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond})
	w.fill(c, 10, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	taken := make(chan struct{})
	w.nodes[2].onTaken = func(context.Context) {
		close(taken)
		cancel() // so the answer comes later
	}
	if _, err := c.TakeSnapshot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	select {
	case <-taken:
	default:
		t.Error("the node was not asked")
	}
	checkNoneKept(t, w)
}

// TestSnapshotWithoutSilentNode: a snapshot that others have made whole does not wait for a node that says nothing; what that one
// says later is ended.
func TestSnapshotWithoutSilentNode(t *testing.T) {
	w := newWorld(t, 2, testShards)
	c := w.open(hasty())
	w.fill(c, 10, 3)
	for shard := range testShards {
		w.lead(shard, 0)
	}
	w.guessAll(c, 0)
	var asked context.Context
	release := make(chan struct{})
	w.nodes[0].onTaken = func(ctx context.Context) {
		asked = ctx
		for shard := range testShards {
			w.lead(shard, 1)
		}
		w.nodes[0].frozen.Store(true)
		<-release
	}
	name, err := c.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if asked == nil || asked.Err() != nil {
		t.Error("the node that said nothing was waited for until its call was given up")
	}
	w.nodes[0].frozen.Store(false)
	close(release)
	if err := c.EndSnapshot(t.Context(), name); err != nil {
		t.Error(err)
	}
	eventually(t, "all parts have ended", func() bool { return w.nodes[0].kept.Load() == 0 && w.nodes[1].kept.Load() == 0 })
}

// TestUnusedPartsDoNotWait: what a node has taken for nothing is ended when it answers, while another one still says nothing.
func TestUnusedPartsDoNotWait(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(hasty())
	w.fill(c, 10, 3)
	var release [2]chan struct{}
	for n := range release {
		release[n] = make(chan struct{})
		w.nodes[n].onTaken = func(context.Context) {
			for shard := range testShards {
				if shard%2 == n {
					w.lead(shard, 2)
				}
			}
			w.nodes[n].frozen.Store(true)
			<-release[n]
		}
	}
	for shard := range testShards {
		w.lead(shard, shard%2)
	}
	name, err := c.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.nodes[1].frozen.Store(false)
	close(release[1])
	eventually(t, "the part of the node that has answered has ended", func() bool { return w.nodes[1].kept.Load() == 0 })
	if w.nodes[0].kept.Load() == 0 {
		t.Error("it ended with that of the silent node")
	}
	w.nodes[0].frozen.Store(false)
	close(release[0])
	if err := c.EndSnapshot(t.Context(), name); err != nil {
		t.Error(err)
	}
	eventually(t, "all parts have ended", func() bool { return w.nodes[0].kept.Load() == 0 && w.nodes[2].kept.Load() == 0 })
}

func checkNoneKept(t *testing.T, w *world) {
	t.Helper()
	for _, n := range w.nodes {
		if kept := n.kept.Load(); kept != 0 {
			t.Errorf("node %s keeps %d snapshots", n.id, kept)
		}
	}
}

// TestSnapshotOfAnotherProcess: only the process that took a part is believed: one of an older version would ignore the name
// of the snapshot and answer with what there is now.
func TestSnapshotOfAnotherProcess(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond})
	w.fill(c, 10, 3)
	name, err := c.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil {
		t.Fatal(err)
	}
	m := &nodev1.ClusterSnapshot{}
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	for _, p := range m.GetParts() {
		p.Process++
	}
	if b, err = proto.Marshal(m); err != nil {
		t.Fatal(err)
	}
	source, done, err := c.SnapshotOf(base64.RawURLEncoding.EncodeToString(b))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	// The error is of one kind: a client would go on trying if it were unavailable, too.
	if _, err := source.Databases(t.Context()); !errors.Is(err, wire.ErrNotFound) || errors.Is(err, wire.ErrWrongNode) {
		t.Errorf("names: %v", err)
	}
	request := &scan.Request{Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Parallel: 1}
	if err := source.Scan(t.Context(), request, func(int, *scan.Chunk) error { return nil }); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("a scan: %v", err)
	}
}

// TestSnapshotWithoutItsNode: when a node that holds a part does not answer, the snapshot has ended, and is not only unavailable: no
// repetition helps.
func TestSnapshotWithoutItsNode(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, ReadTimeout: 100 * time.Millisecond})
	w.fill(c, 10, 3)
	name, err := c.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.nodes[2].stop()
	source, done, err := c.SnapshotOf(name)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := source.Databases(t.Context()); !errors.Is(err, wire.ErrNotFound) || errors.Is(err, series.ErrUnavailable) {
		t.Errorf("names: %v", err)
	}
}

// TestSnapshotNames: names that clients make up lead to no other work than those that they were given.
func TestSnapshotNames(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, ReadTimeout: 100 * time.Millisecond})
	w.fill(c, 10, 3)
	var all []uint32
	for shard := range uint32(testShards) {
		all = append(all, shard)
	}
	nameOf := func(parts ...*nodev1.SnapshotPart) string {
		b, err := proto.Marshal(&nodev1.ClusterSnapshot{Parts: parts})
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	whole := &nodev1.SnapshotPart{Node: "a", Incarnation: identity("a"), Name: "of a", Shards: all}
	empty := make([]*nodev1.SnapshotPart, testShards)
	for i := range empty {
		empty[i] = &nodev1.SnapshotPart{Node: "a", Incarnation: identity("a"), Name: "of a"}
	}
	for what, name := range map[string]string{
		"no base64":              "=",
		"no message":             base64.RawURLEncoding.EncodeToString([]byte{0xff}),
		"too long":               strings.Repeat("A", snapshotNameMax+1),
		"more parts than shards": nameOf(append(empty, whole)...),
		"a shard twice":          nameOf(whole, whole),
		"without shards":         nameOf(empty...),
	} {
		if _, _, err := c.SnapshotOf(name); !errors.Is(err, wire.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
		if err := c.EndSnapshot(t.Context(), name); err != nil {
			t.Errorf("the end of %s: %v", what, err)
		}
	}
	// Nodes are found by the map alone: a name has no address, and whoever is not of the cluster is not asked.
	stranger := &nodev1.SnapshotPart{Node: w.nodes[0].address, Incarnation: identity("a"), Name: "of a", Shards: all}
	source, done, err := c.SnapshotOf(nameOf(stranger))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := source.Databases(t.Context()); !errors.Is(err, wire.ErrNotFound) || errors.Is(err, series.ErrUnavailable) {
		t.Errorf("of a stranger: %v", err)
	}
}

// FuzzSnapshotName: whatever name a client sends, there is one part for each shard, which says that it has it, or
// wire.ErrNotFound.
func FuzzSnapshotName(f *testing.F) {
	b, err := proto.Marshal(&nodev1.ClusterSnapshot{Parts: []*nodev1.SnapshotPart{{Node: "a", Name: "x", Shards: []uint32{0, 2}}, {Node: "b", Name: "y", Shards: []uint32{1}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, message []byte) {
		const shards = 3
		byShard, err := parseSnapshot(base64.RawURLEncoding.EncodeToString(message), shards)
		if err != nil {
			if !errors.Is(err, wire.ErrNotFound) {
				t.Fatal(err)
			}
			return
		}
		m := &nodev1.ClusterSnapshot{}
		if err := proto.Unmarshal(message, m); err != nil || len(m.GetParts()) > shards || len(byShard) != shards {
			t.Fatalf("%v, %v by shard of %v", err, byShard, m)
		}
		for shard, p := range byShard {
			times := 0
			for _, other := range m.GetParts() {
				for _, s := range other.GetShards() {
					if int64(s) == int64(shard) {
						times++
					}
				}
			}
			if p.GetName() == "" || times != 1 || !slices.Contains(p.GetShards(), uint32(shard)) {
				t.Fatalf("shard %d is in %d parts of %v", shard, times, m)
			}
		}
	})
}
