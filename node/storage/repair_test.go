package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"path"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// labSource provides ranges of one lab node to another.
type labSource struct {
	from, to *labNode
	way      func(io.Reader) io.Reader // nil: as it is
	before   func()                    // called when a range is asked for
	after    func()                    // and when it was made
}

func (s *labSource) OpenRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64) (io.ReadCloser, error) {
	if s.before != nil {
		s.before()
	}
	var b bytes.Buffer
	if err := s.from.e.ExportRange(ctx, shard, fromMs, toMs, indexMin, &b); err != nil {
		return nil, err
	}
	if s.after != nil {
		s.after()
	}
	if s.way != nil {
		return io.NopCloser(s.way(&b)), nil
	}
	return io.NopCloser(&b), nil
}

func (s *labSource) AwaitApplied(_ context.Context, shard uint16, index uint64) error {
	s.to.apply(int(shard), int(index)-int(s.to.appliedTo(int(shard))))
	return nil
}

// segmentFiles returns the paths of the segments that are on the disk.
func (n *labNode) segmentFiles() (names []string) {
	n.t.Helper()
	entries, err := n.fs.List("data/" + dirSegments)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, name := range entries {
		if path.Ext(name) == segment.FileSuffix {
			names = append(names, path.Join("data", dirSegments, name))
		}
	}
	return names
}

// damage changes some bytes of a file, and opens the engine anew.
func (n *labNode) damage(name string, rng *rand.Rand) {
	n.t.Helper()
	n.damaged = true
	n.end()
	f, err := n.fs.OpenReadWrite(name)
	if err != nil {
		n.t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		n.t.Fatal(err)
	}
	for range 1 + rng.IntN(3) {
		if _, err := f.WriteAt([]byte{byte(rng.IntN(256))}, rng.Int64N(size)); err != nil {
			n.t.Fatal(err)
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		n.t.Fatal(err)
	}
	n.open()
}

// examine reads all shards: what is read is right, or the error says that the disk has
// something else than was written.
func (n *labNode) examine(what string) (damaged bool) {
	n.t.Helper()
	for shard := range labShards {
		got, err := n.contents(shard)
		switch {
		case err == nil:
			n.compare(what, shard, got, n.logs[shard].at(n.appliedTo(shard)))
		case manifest.IsDamage(err):
			damaged = true
		default:
			n.t.Fatalf("%s: shard %d: %v", what, shard, err)
		}
	}
	return damaged
}

// TestRangesAreRepaired damages segments of three nodes that have all shards, between
// writes, deletes, retention, checkpoints, merges and power cuts. What is read is always
// right or an error, and what can be read after the repair is what the log says, to the
// bit, also when entries were applied and files merged during the repair, and after the
// next power cut.
func TestRangesAreRepaired(t *testing.T) {
	var repairs, moments atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(storagetest.Seeds(2)) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				done, met := repairRanges(t, seed)
				repairs.Add(int64(done))
				moments.Add(int64(met))
			})
		}
	})
	t.Log(repairs.Load(), "repairs,", moments.Load(), "of them with other work between")
	if repairs.Load() == 0 || moments.Load() == 0 {
		t.Error("nothing was repaired")
	}
}

// repairRanges returns the number of repairs, and of those with other work between.
func repairRanges(t *testing.T, seed uint64) (repairs, moments int) {
	rng := rand.New(rand.NewPCG(seed, 17))
	logs := newLabLogs()
	var nodes []*labNode
	for range 3 {
		n := newLabNode(t, logs)
		n.hosts = [labShards]bool{true, true, true}
		nodes = append(nodes, n)
	}
	for step := range 100 {
		what := fmt.Sprintf("seed %d, step %d", seed, step)
		n, shard := nodes[rng.IntN(len(nodes))], rng.IntN(labShards)
		switch k := rng.IntN(20); {
		case k < 7:
			for range 1 + rng.IntN(4) {
				logs[shard].grow(rng)
			}
		case k < 12:
			n.apply(shard, 1+rng.IntN(8))
		case k < 16:
			if err := n.maintain(rng); err != nil {
				t.Fatal(what, err)
			}
		case k < 17:
			n.crash(rng)
		default:
			files := n.segmentFiles()
			if len(files) == 0 {
				continue
			}
			n.damage(files[rng.IntN(len(files))], rng)
			done, met := n.mend(what, nodes, rng)
			repairs += done
			moments += met
			if rng.IntN(3) == 0 {
				n.crash(rng)
				n.check(what + ", after a power cut")
			}
		}
		if rng.IntN(6) == 0 {
			n.check(what)
		}
	}
	for _, n := range nodes {
		for shard := range labShards {
			n.apply(shard, math.MaxInt)
		}
		n.check("at the end")
		for range 30 {
			if _, err := n.e.Compact(context.Background(), logs[0].nowMs+100*24*3600_000); err != nil {
				t.Fatal(err)
			}
		}
		n.check("after merges")
	}
	for shard := range labShards {
		equalDigests(t, nodes, logs, shard)
	}
	for _, n := range nodes {
		n.end()
	}
	return repairs, moments
}

// mend repairs all that a node has met, and returns the number of repairs, and of those
// during which something else was done.
func (n *labNode) mend(what string, nodes []*labNode, rng *rand.Rand) (repairs, moments int) {
	n.t.Helper()
	for attempt := 0; ; attempt++ {
		damaged, damages := n.examine(what), n.e.Damages()
		if len(damages) == 0 && !damaged {
			return repairs, moments
		}
		if len(damages) == 0 || attempt > 60 {
			n.t.Fatalf("%s: %d damages are known after %d attempts, and reads fail", what, len(damages), attempt)
		}
		d := damages[rng.IntN(len(damages))]
		from := nodes[rng.IntN(len(nodes))]
		if from == n {
			continue
		}
		from.apply(int(d.Shard), math.MaxInt)
		source := &labSource{from: from, to: n}
		busy := rng.IntN(2) == 0
		work := func() {
			if !busy {
				return
			}
			for range rng.IntN(6) {
				n.logs[d.Shard].grow(rng)
			}
			n.apply(int(d.Shard), rng.IntN(8))
			from.apply(int(d.Shard), math.MaxInt) // at least as far as the node
			if err := n.maintain(rng); err != nil {
				n.t.Fatal(what, err)
			}
		}
		source.before, source.after = work, work
		_, err := n.e.RepairRange(context.Background(), d.Shard, d.FromMs, d.ToMs, source)
		switch {
		case err == nil:
			repairs++
			moments += countOf(busy)
		case errors.Is(err, transfer.ErrRepair) && busy: // merged meanwhile
		default:
			n.t.Fatalf("%s: %v", what, err)
		}
	}
}

func countOf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// repairLab returns two nodes with the same shards, one of which has a damaged segment,
// which it has met.
func repairLab(t *testing.T, seed uint64) (good, bad *labNode, d manifest.Damage) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 18))
	logs := newLabLogs()
	good, bad = newLabNode(t, logs), newLabNode(t, logs)
	for shard := range labShards {
		for range 30 {
			logs[shard].write(rng)
			logs[shard].nowMs += 20_000
		}
		for _, n := range []*labNode{good, bad} {
			n.hosts[shard] = true
			n.apply(shard, math.MaxInt)
		}
	}
	if err := bad.e.Flush(); err != nil {
		t.Fatal(err)
	}
	for try := 0; len(bad.e.Damages()) == 0; try++ {
		files := bad.segmentFiles()
		bad.damage(files[rng.IntN(len(files))], rng)
		if bad.examine("the damage"); try > 100 {
			t.Fatal("no damage is met")
		}
	}
	return good, bad, bad.e.Damages()[0]
}

// TestRepairThatFails cuts and changes the stream, fails before the manifest, and asks
// who lags behind: nothing changes, and the next attempt repairs.
func TestRepairThatFails(t *testing.T) {
	ctx := context.Background()
	good, bad, d := repairLab(t, 1)
	defer good.end()
	defer bad.end()
	files := 0
	try := func(source *labSource) error {
		source.from, source.to = good, bad
		_, err := bad.e.RepairRange(ctx, d.Shard, d.FromMs, d.ToMs, source)
		return err
	}
	flipped := func(at int) func(io.Reader) io.Reader {
		return func(r io.Reader) io.Reader {
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			b[at%len(b)] ^= 0x10
			return bytes.NewReader(b)
		}
	}
	cut := func(at int) func(io.Reader) io.Reader {
		return func(r io.Reader) io.Reader {
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return bytes.NewReader(b[:at%len(b)])
		}
	}
	for at := range 40 {
		if err := try(&labSource{way: flipped(at * 7919)}); err == nil {
			t.Fatalf("a stream with a changed byte at %d was taken", at*7919)
		}
		if at == 0 { // what was hot is in segments now
			files = len(bad.segmentFiles())
		}
		if err := try(&labSource{way: cut(at * 104729)}); err == nil {
			t.Fatal("a stream that is cut was taken")
		}
	}
	wide := func(fromMs, toMs int64) error {
		_, err := bad.e.RepairRange(ctx, d.Shard, fromMs, toMs, &labSource{from: good, to: bad})
		return err
	}
	if err := wide(scan.TimeMsMin, scan.TimeMsMax); !errors.Is(err, transfer.ErrRepair) {
		t.Fatalf("a range wider than a month: %v", err)
	}
	if _, err := bad.e.RepairRange(ctx, labShards, 0, 1, nil); !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("a shard that does not exist: %v", err)
	}
	good.e.shards[d.Shard].mu.Lock()
	applied := good.e.shards[d.Shard].mu.applied
	good.e.shards[d.Shard].mu.applied = 1
	good.e.shards[d.Shard].mu.Unlock()
	if err := try(&labSource{}); !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("a source that lags: %v", err)
	}
	good.e.shards[d.Shard].mu.Lock()
	good.e.shards[d.Shard].mu.applied = applied
	good.e.shards[d.Shard].mu.Unlock()
	if got := len(bad.segmentFiles()); got != files {
		t.Fatalf("%d files, %d before", got, files)
	}
	if len(bad.e.Damages()) == 0 {
		t.Fatal("the damage is forgotten")
	}
	for len(bad.e.Damages()) > 0 {
		d = bad.e.Damages()[0]
		if err := try(&labSource{}); err != nil {
			t.Fatal(err)
		}
		bad.examine("after a repair")
	}
	bad.check("at the end")
	equalDigests(t, []*labNode{good, bad}, good.logs, int(d.Shard))
}

// TestDamagedShardIsNotExported: a copy of a shard that lacks a segment would be one
// that lacks samples.
func TestDamagedShardIsNotExported(t *testing.T) {
	good, bad, d := repairLab(t, 2)
	defer good.end()
	defer bad.end()
	fresh := newLabNode(t, good.logs)
	defer fresh.end()
	if err := send(bad, fresh, int(d.Shard), whole); !manifest.IsDamage(err) {
		t.Fatalf("a damaged shard was installed elsewhere: %v", err)
	}
	if err := bad.e.ExportRange(context.Background(), d.Shard, d.FromMs, d.ToMs, 0, io.Discard); !manifest.IsDamage(err) {
		t.Fatalf("a damaged range was given away: %v", err)
	}
	for len(bad.e.Damages()) > 0 {
		d = bad.e.Damages()[0]
		if _, err := bad.e.RepairRange(context.Background(), d.Shard, d.FromMs, d.ToMs, &labSource{from: good, to: bad}); err != nil {
			t.Fatal(err)
		}
		bad.examine("after a repair")
	}
	if err := send(bad, fresh, int(d.Shard), whole); err != nil {
		t.Fatal(err)
	}
	fresh.check("a copy of what was repaired")
}

// TestRangeDigests compares digests of closed ranges with the model while later samples
// are written, and makes sure that a digest never stands for an entry that changed it.
func TestRangeDigests(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 19))
	logs := newLabLogs()
	nodes := []*labNode{newLabNode(t, logs), newLabNode(t, logs)}
	for _, n := range nodes {
		n.hosts = [labShards]bool{true, true, true}
	}
	pace := func(int) error { return nil }
	type heldDigest struct {
		d            transfer.RangeDigest
		fromMs, toMs int64
	}
	compared := 0
	for range 60 {
		for shard := range labShards {
			for range rng.IntN(4) {
				logs[shard].grow(rng)
			}
			for _, n := range nodes {
				n.apply(shard, rng.IntN(6))
			}
			toMs := logs[shard].nowMs - rng.Int64N(4)*3600_000
			fromMs := toMs - 24*3600_000
			var held []heldDigest
			for _, n := range nodes {
				d, err := n.e.RangeDigest(context.Background(), uint16(shard), fromMs, toMs, pace)
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, heldDigest{d, fromMs, toMs})
				for at := d.Since; at <= d.Applied; at++ {
					if want := labDigest(logs[shard].at(at), fromMs, toMs); d.Digest != want {
						t.Fatalf("entries %d to %d: %+v, but entry %d has %+v", d.Since, d.Applied, d.Digest, at, want)
					}
				}
			}
			a, b := held[0].d, held[1].d
			if max(a.Since, b.Since) <= min(a.Applied, b.Applied) {
				if compared++; a.Digest != b.Digest {
					t.Fatalf("%+v and %+v", a, b)
				}
			}
		}
	}
	if compared < 20 {
		t.Errorf("only %d digests could be compared", compared)
	}
	for _, n := range nodes {
		n.end()
	}
}

// labDigest is the digest of a range, from the model.
func labDigest(m *slowShard, fromMs, toMs int64) (d transfer.Digest) {
	for key, samples := range m.contents() {
		seed, found := labKeyHash([]byte(key)), false
		for at, v := range samples {
			if at >= fromMs && at <= toMs {
				d.Sum += labFold(labFold(uint64(at)^0x13198a2e03707344, v^0xb7e151628aed2a6b)^seed, uint64(at)^0x243f6a8885a308d3)
				d.Samples++
				found = true
			}
		}
		d.Series += int64(countOf(found))
	}
	return d
}

// labKeyHash folds a key eight bytes at a time.
func labKeyHash(key []byte) uint64 {
	h := uint64(len(key)) ^ 0x243f6a8885a308d3
	key = append(bytes.Clone(key), make([]byte, 8)...)
	for ; len(key) >= 16; key = key[8:] {
		h = labFold(h^binary.LittleEndian.Uint64(key), 0xb7e151628aed2a6b)
	}
	return labFold(h^binary.LittleEndian.Uint64(key), 0x13198a2e03707344)
}

func labFold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
