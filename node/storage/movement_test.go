package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// send exports a shard of one node and installs it on another. The stream may be cut
// or changed on its way by the given reader.
func send(from, to *labNode, shard int, way func(io.Reader) io.Reader) error {
	x, err := from.e.ExportShard(uint16(shard))
	if err != nil {
		return err
	}
	defer x.Close()
	info, err := to.e.InstallShard(context.Background(), uint16(shard), uint64(len(to.written)), way(x.OpenAt(0)))
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(info, x.ShardExport) {
		return fmt.Errorf("%+v was installed, not %+v", info, x.ShardExport)
	}
	to.hosts[shard], to.through[shard] = true, info.Through
	return nil
}

func whole(r io.Reader) io.Reader { return r }

// resumed opens the stream anew in the middle, again and again.
func resumed(x *transfer.Export, rng *rand.Rand) io.Reader {
	var parts []io.Reader
	for at := int64(0); at < x.Size(); {
		n := min(1+rng.Int64N(x.Size()/3+1), x.Size()-at)
		parts = append(parts, io.LimitReader(x.OpenAt(at), n))
		at += n
	}
	return io.MultiReader(parts...)
}

// TestShardsMove moves replicas between three nodes, at any distance from the head of
// their logs, with crashes, checkpoints, flushes and merges between: what a node has of
// a shard is what the shard's log says, to the bit, and equal entries give equal
// digests.
func TestShardsMove(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			moveShards(t, seed, func(*labLog) {})
		})
	}
}

// TestForgottenSeriesMove is TestShardsMove where most series are soon deleted, forgotten and made again.
func TestForgottenSeriesMove(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			moveShards(t, seed, func(l *labLog) { l.churn = true })
		})
	}
}

func moveShards(t *testing.T, seed uint64, set func(*labLog)) {
	rng := rand.New(rand.NewPCG(seed, 7))
	logs := newLabLogs()
	for _, l := range logs {
		set(l)
	}
	churn := logs[0].churn
	var nodes []*labNode
	for range 3 {
		nodes = append(nodes, newLabNode(t, logs))
	}
	for shard := range labShards {
		nodes[shard].hosts[shard] = true
	}
	moves := 0
	for step := range 200 {
		what := fmt.Sprintf("seed %d, step %d", seed, step)
		n, shard := nodes[rng.IntN(len(nodes))], rng.IntN(labShards)
		switch k := rng.IntN(20); {
		case k < 6:
			for range 1 + rng.IntN(4) {
				logs[shard].grow(rng)
			}
		case k < 12:
			if n.hosts[shard] {
				n.apply(shard, 1+rng.IntN(8))
			}
		case k < 15:
			if err := n.maintain(rng); err != nil {
				t.Fatal(what, err)
			}
		case k < 16:
			n.crash(rng)
		case k < 19:
			// A replica is replaced only by one that is further on, as in a cluster:
			// ids that a node has given stay.
			i := slices.IndexFunc(nodes, func(from *labNode) bool {
				return from != n && from.hosts[shard] && keepsIDs(n, from, shard) &&
					from.appliedTo(shard) >= max(n.appliedTo(shard), n.through[shard])
			})
			if i < 0 {
				continue
			}
			from := nodes[i]
			if err := send(from, n, shard, whole); err != nil {
				t.Fatal(what, err)
			}
			moves++
			if rng.IntN(4) == 0 {
				n.crash(rng) // before anything else makes durable what came
			}
		case n.hosts[shard] && others(nodes, n, shard):
			if err := n.e.DropShard(uint16(shard), uint64(len(n.written))); err != nil {
				t.Fatal(what, err)
			}
			n.hosts[shard], n.through[shard] = false, 0
		}
		if rng.IntN(6) == 0 {
			n.check(what)
		}
	}
	for _, n := range nodes {
		for shard := range labShards {
			if n.hosts[shard] {
				n.apply(shard, math.MaxInt)
			}
		}
		n.check("at the end")
	}
	t.Log(moves, "moves,", nodes[0].empty+nodes[1].empty+nodes[2].empty, "series seen without samples")
	if moves == 0 {
		t.Fatal("nothing was moved")
	}
	if churn && !slices.ContainsFunc(logs, func(l *labLog) bool { return len(l.head.ids) > len(l.keys) }) {
		t.Fatal("no key has got another id")
	}
	for shard := range labShards {
		equalDigests(t, nodes, logs, shard)
	}
	for _, n := range nodes {
		n.crash(rng)
		n.check("after the last crash")
		n.end()
	}
}

// keepsIDs reports whether all ids that a node gave are known to another.
func keepsIDs(n, from *labNode, shard int) bool {
	return n.e.ShardStats(uint16(shard)).Series <= from.e.ShardStats(uint16(shard)).Series
}

func others(nodes []*labNode, not *labNode, shard int) bool {
	return slices.ContainsFunc(nodes, func(n *labNode) bool { return n != not && n.hosts[shard] })
}

// equalDigests compares the replicas of a shard, which have all applied the whole log,
// with each other and with the model.
func equalDigests(t *testing.T, nodes []*labNode, logs []*labLog, shard int) {
	t.Helper()
	var want *transfer.Digest
	for _, n := range nodes {
		if !n.hosts[shard] {
			continue
		}
		got, err := n.e.ShardDigest(context.Background(), uint16(shard), scan.TimeMsMin, scan.TimeMsMax)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = &got
		}
		if got != *want {
			t.Fatalf("shard %d: %+v and %+v", shard, got, want)
		}
	}
	contents := logs[shard].head.contents()
	samples := int64(0)
	for _, s := range contents {
		samples += int64(len(s))
	}
	if want != nil && (want.Series != int64(len(contents)) || want.Samples != samples) {
		t.Fatalf("shard %d: %+v; want %d series, %d samples", shard, want, len(contents), samples)
	}
}

// labPair returns a node with a replica of shard 0 and history of all kinds, and one
// with an older one that lags.
func labPair(t *testing.T, seed uint64) (from, to *labNode, rng *rand.Rand) {
	t.Helper()
	rng = rand.New(rand.NewPCG(seed, 9))
	logs := newLabLogs()
	from, to = newLabNode(t, logs), newLabNode(t, logs)
	from.hosts, to.hosts = [labShards]bool{true, true}, [labShards]bool{true, true}
	for step := range 40 {
		logs[step%2].grow(rng)
		from.apply(step%2, math.MaxInt)
		if step < 20 {
			to.apply(step%2, math.MaxInt)
		}
		if rng.IntN(3) == 0 {
			for _, n := range []*labNode{from, to} {
				if err := n.maintain(rng); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return from, to, rng
}

// TestStreamFromAnyPlace reads a stream from offsets, while the shard is written to,
// and after what it was made of has been merged and deleted.
func TestStreamFromAnyPlace(t *testing.T) {
	from, to, rng := labPair(t, 1)
	defer from.end()
	defer to.end()
	x, err := from.e.ExportShard(0)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var stream bytes.Buffer
	if n, err := x.WriteTo(&stream); err != nil || n != x.Size() {
		t.Fatalf("%d bytes of %d, %v", n, x.Size(), err)
	}
	for range 60 {
		from.logs[0].grow(rng)
		from.apply(0, math.MaxInt)
		if err := from.maintain(rng); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		at := rng.Int64N(x.Size() + 10)
		got, err := io.ReadAll(x.OpenAt(at))
		if err != nil || !bytes.Equal(got, stream.Bytes()[min(at, x.Size()):]) {
			t.Fatalf("from byte %d of %d on: %d bytes, %v", at, x.Size(), len(got), err)
		}
	}
	info, err := to.e.InstallShard(context.Background(), 0, uint64(len(to.written)), resumed(x, rng))
	if err != nil {
		t.Fatal(err)
	}
	to.through[0] = info.Through
	to.apply(0, math.MaxInt)
	to.check("after the installation")
	equalDigests(t, []*labNode{from, to}, from.logs, 0)
}

// TestExportWhileEntriesAreApplied pins a state while others are made. A node that
// installs it is right from the entry Through on.
func TestExportWhileEntriesAreApplied(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	logs := newLabLogs()
	from, to := newLabNode(t, logs), newLabNode(t, logs)
	from.hosts[0] = true
	for range 400 {
		logs[0].grow(rng)
	}
	for range 8 {
		from.apply(0, 5)
		from.beforeSegment(func(string) error {
			from.apply(0, 1) // the shard's own state has been taken by now
			return nil
		})
		x, err := from.e.ExportShard(0)
		from.setRule(nil)
		if err != nil {
			t.Fatal(err)
		}
		if x.Through <= x.Index {
			t.Fatal("nothing was applied meanwhile")
		}
		if _, err := to.e.InstallShard(context.Background(), 0, uint64(len(to.written)), x.OpenAt(0)); err != nil {
			t.Fatal(err)
		}
		to.hosts[0], to.through[0] = true, x.Through
		to.check("when it was installed")
		to.apply(0, int(x.Through-x.Index))
		to.check("after the entry Through")
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	from.check("at the end")
	from.end()
	to.end()
}

// TestDamagedStreamLeavesTheOldReplica cuts a stream and flips bits of it.
func TestDamagedStreamLeavesTheOldReplica(t *testing.T) {
	from, to, rng := labPair(t, 2)
	defer from.end()
	x, err := from.e.ExportShard(0)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var stream bytes.Buffer
	if _, err := x.WriteTo(&stream); err != nil {
		t.Fatal(err)
	}
	index := to.appliedTo(0)
	for range 150 {
		b := slices.Clone(stream.Bytes())
		if rng.IntN(2) == 0 {
			b = b[:rng.IntN(len(b))]
		} else {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		if _, err := to.e.InstallShard(context.Background(), 0, uint64(len(to.written)), bytes.NewReader(b)); err == nil {
			t.Fatal("a damaged stream was taken")
		} else if !errors.Is(err, transfer.ErrStream) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	if got := to.appliedTo(0); got != index {
		t.Fatalf("entry %d, want %d", got, index)
	}
	to.check("after damaged streams")
	names, err := to.fs.List("data/segments")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(to.e.files.Present().Segments) {
		t.Errorf("%q for %d segments", names, len(to.e.files.Present().Segments))
	}
	if _, err := to.e.InstallShard(context.Background(), 1, 0, bytes.NewReader(stream.Bytes())); !errors.Is(err, transfer.ErrStream) {
		t.Errorf("the stream of another shard: %v", err)
	}
	to.crash(rng)
	to.check("after a crash")
	to.end()
}
