package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// The lab runs engines over logs of its own, as a group of nodes would: each shard
// has one log, nodes that have a replica of it apply its entries in order, each at
// its own pace, and a slow model says what is right after each entry.

const labShards = 3

// labNode is an engine with its log, which loses at a power cut what was not synced.
type labNode struct {
	t       *testing.T
	logs    []*labLog
	fs      *vfs.MemFS
	e       *Engine
	length  atomic.Int64 // of written
	synced  atomic.Int64 // of that, what is safe
	written []*labEntry  // the node's log
	// the node's log
	faultIn atomic.Int64             // operations of the disk until one fails; 0: none will
	rule    atomic.Pointer[diskRule] // asked before each operation, if it is set
	memory  int64                    // Options.SeriesBytesMax
	traces  int                      // exemplars that were compared
	empty   int                      // series without samples that were found
	damaged bool                     // files were damaged: the engine may report it

	hosts   [labShards]bool
	through [labShards]uint64 // before it is applied a replica is no state that ever was

	// Where the present epoch began.
	epoch    uint16
	position uint64
	applied  []uint64
}

// diskRule fails an operation of the disk that it returns an error for. The engine's own goroutines,
// which make extents of the page log and parts of the index ahead and remove what is replaced, ask it
// too, at any time.
type diskRule func(vfs.Op) error

func newLabNode(t *testing.T, logs []*labLog) *labNode {
	n := &labNode{t: t, logs: logs, fs: vfs.NewMemFS()}
	n.open()
	return n
}

func (n *labNode) options() Options {
	return Options{
		FS: vfs.Faults(n.fs, n.fault), Dir: "data", Shards: labShards, ExtentBytes: 64 << 10, GenerationBytesMax: 1 << 20, PersistSeriesMin: 4, SeriesBytesMax: n.memory,
		SyncLog: func() error { n.synced.Store(n.length.Load()); return nil },
	}
}

// fault fails one operation that changes something.
func (n *labNode) fault(op vfs.Op) error {
	if rule := n.rule.Load(); rule != nil {
		if err := (*rule)(op); err != nil {
			return err
		}
	}
	switch op.Kind {
	case vfs.OpCreate, vfs.OpRemove, vfs.OpRename, vfs.OpSyncDir, vfs.OpWrite, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpSync, vfs.OpMap:
		if n.faultIn.Load() > 0 && n.faultIn.Add(-1) == 0 {
			return syscall.EIO
		}
	}
	return nil
}

// setRule sets what is asked before each operation of the disk; nil: nothing.
func (n *labNode) setRule(rule diskRule) {
	if rule == nil {
		n.rule.Store(nil)
		return
	}
	n.rule.Store(&rule)
}

// beforeSegment has a function called with the name of each file of a segment before it is created.
// Only flushes, compactions and transfers create those, in the goroutine that called the engine for
// one, so that what the function uses needs no lock where a test has one such call at a time.
func (n *labNode) beforeSegment(create func(name string) error) {
	n.setRule(func(op vfs.Op) error {
		if op.Kind != vfs.OpCreate || path.Dir(op.Name) != segmentsFolder {
			return nil
		}
		return create(path.Base(op.Name))
	})
}

// segmentsFolder is where a lab node has its segments.
const segmentsFolder = "data/" + dirSegments

func (n *labNode) open() {
	n.t.Helper()
	var err error
	if n.e, err = Open(n.options()); err != nil {
		n.t.Fatal(err)
	}
	n.e.LetDropKeys()
	n.epoch, n.position, n.applied = 0, n.e.LogPosition(), n.e.AppliedIndexes()
	for at := n.position; at < uint64(len(n.written)); at++ {
		var refused *entry.BatchError
		if err := n.e.Replay(at, &n.written[at].entry); err != nil && !errors.As(err, &refused) {
			n.t.Fatal(err)
		}
	}
	if n.e.DoubtsIDs() {
		n.t.Fatal("the replay met a gap")
	}
}

// end closes the engine of a test.
func (n *labNode) end() {
	n.t.Helper()
	if err := n.e.Close(); err != nil {
		n.t.Error(err)
	}
}

// crash takes the power away, and starts again.
func (n *labNode) crash(rng *rand.Rand) {
	n.t.Helper()
	n.cut(rng)
	n.open()
}

// cut takes the power away.
func (n *labNode) cut(rng *rand.Rand) {
	n.t.Helper()
	percent := rng.IntN(101)
	synced := n.synced.Load()
	after := n.fs.CrashClone(vfs.CrashOptions{Seed: rng.Uint64(), BlockPercent: percent, NamePercent: percent, ReorderNames: rng.IntN(2) == 0})
	n.end()
	n.fs = after
	n.written = n.written[:synced+rng.Int64N(int64(len(n.written))-synced+1)]
	n.length.Store(int64(len(n.written)))
}

// apply applies up to count of the entries of a shard that the node does not have yet.
func (n *labNode) apply(shard, count int) {
	n.t.Helper()
	log := n.logs[shard]
	for next := n.appliedTo(shard); count > 0 && next < uint64(len(log.entries)); next++ {
		e := &log.entries[next]
		n.written = append(n.written, e)
		n.length.Store(int64(len(n.written)))
		var refused *entry.BatchError
		if err := n.e.Apply(n.epoch, &e.entry); err != nil && !errors.As(err, &refused) {
			n.t.Fatal(err)
		}
		count--
	}
}

func (n *labNode) appliedTo(shard int) uint64 { return n.e.AppliedIndexes()[shard] }

func (n *labNode) checkpoint() error {
	err := n.e.Checkpoint(Checkpoint{Position: n.position, Applied: n.applied, SealThrough: n.epoch - 1})
	if err != nil {
		return err
	}
	n.epoch++
	n.position, n.applied = uint64(len(n.written)), n.e.AppliedIndexes()
	return nil
}

// maintain does one random thing that changes nothing.
func (n *labNode) maintain(rng *rand.Rand) error {
	if n.logs[0].thins && rng.IntN(3) == 0 {
		_, err := n.e.PrepareThin(n.checkpoint)
		return err
	}
	switch rng.IntN(5) {
	case 4:
		return n.e.Retain()
	case 0, 1:
		return n.checkpoint()
	case 2:
		return n.e.Flush()
	default:
		_, err := n.e.Compact(context.Background(), n.logs[0].nowMs+rng.Int64N(40*24*3600_000))
		return err
	}
}

// contents reads a shard.
func (n *labNode) contents(shard int) (found map[string]map[int64]uint64, err error) {
	return n.contentsBetween(shard, scan.TimeMsMin, scan.TimeMsMax)
}

func (n *labNode) contentsBetween(shard int, fromMs, toMs int64) (found map[string]map[int64]uint64, err error) {
	found = map[string]map[int64]uint64{}
	err = n.e.Scan(context.Background(), &scan.Request{
		Selector: scan.Selector{MetricAny: true, Shards: []uint16{uint16(shard)}}, FromMs: fromMs, ToMs: toMs,
	}, func(_ int, c *scan.Chunk) error {
		if found[string(c.Key)] == nil {
			found[string(c.Key)] = map[int64]uint64{}
		}
		for i, at := range c.Times {
			if _, twice := found[string(c.Key)][at]; twice {
				return fmt.Errorf("%s at %d twice", c.Key, at)
			}
			found[string(c.Key)][at] = math.Float64bits(c.Values[i])
		}
		return nil
	})
	return found, err
}

// checkNames makes sure that the names are those of the shards that are here.
func (n *labNode) checkNames(what string) {
	n.t.Helper()
	hosts, err := n.e.TagValues(context.Background(), "", "", "h", "", 0)
	if err != nil {
		n.t.Fatal(what, err)
	}
	for _, host := range hosts {
		i, err := strconv.Atoi(host)
		if err != nil {
			n.t.Fatal(what, err)
		}
		key := labKey(i)
		if shard := key.Shard(labShards); !n.hosts[shard] {
			n.t.Fatalf("%s: the value %s is listed, but shard %d is not here", what, host, shard)
		}
	}
	for shard := range uint16(labShards) {
		got, err := n.contents(int(shard))
		if err != nil {
			n.t.Fatal(what, err)
		}
		one, err := n.e.NamesOf([]uint16{shard}).TagValues(context.Background(), "", "", "h", "", 0)
		if err != nil || len(one) < len(got) || !n.hosts[shard] && len(one) > 0 {
			n.t.Fatalf("%s: shard %d has samples of %d series and lists %d values, %v", what, shard, len(got), len(one), err)
		}
		for _, host := range one {
			if !slices.Contains(hosts, host) {
				n.t.Fatalf("%s: the value %s of shard %d is not listed", what, host, shard)
			}
		}
	}
}

// check compares all shards with the model.
func (n *labNode) check(what string) {
	n.t.Helper()
	n.checkNames(what)
	for shard := range labShards {
		got, err := n.contents(shard)
		if err != nil {
			n.t.Fatalf("%s: shard %d: %v", what, shard, err)
		}
		applied := n.appliedTo(shard)
		if !n.hosts[shard] {
			if len(got) > 0 || applied != 0 {
				n.t.Fatalf("%s: shard %d has %d series and entry %d, but there is no replica", what, shard, len(got), applied)
			}
			continue
		}
		if applied < n.through[shard] {
			continue
		}
		n.compare(what, shard, got, n.logs[shard].at(applied))
	}
	if damages := n.e.Stats().Corruptions; damages > 0 && !n.damaged {
		n.t.Fatalf("%s: %d damages are reported of files that are sound", what, damages)
	}
}

func (n *labNode) compare(what string, shard int, got map[string]map[int64]uint64, m *slowShard) {
	n.t.Helper()
	want := m.contents()
	if !maps.EqualFunc(got, want, maps.Equal[map[int64]uint64, map[int64]uint64]) {
		n.t.Fatalf("%s: shard %d after entry %d of %d: %s", what, shard, n.appliedTo(shard), len(n.logs[shard].entries), labDifference(want, got))
	}
	if n.logs[shard].thins {
		n.compareWindows(what, shard, m)
	}
	n.compareDigests(what, shard, m)
	n.compareTraces(what, shard, m)
	n.compareLast(what, shard, want)
	n.compareDays(what, shard, want)
	s := n.e.shards[shard]
	s.mu.Lock()
	sessions := s.mu.ledger.Sessions()
	table := s.mu.ledger.Now()
	s.mu.Unlock()
	if sessions != len(m.batches.Sessions) {
		n.t.Fatalf("%s: shard %d knows %d sessions, want %d", what, shard, sessions, len(m.batches.Sessions))
	}
	again, err := dedup.DecodeTable(table)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, session := range m.batches.Sessions {
		if last, ok := again.LastOf(session.ID); !ok || last != session.Last {
			n.t.Fatalf("%s: shard %d does not know session %d as it was", what, shard, session.ID)
		}
	}
	if gone := slices.Sorted(maps.Keys(m.gone)); !slices.Equal(s.forgotten.IDs(), gone) {
		n.t.Fatalf("%s: shard %d after entry %d has forgotten %v, want %v", what, shard, n.appliedTo(shard), s.forgotten.IDs(), gone)
	}
	n.compareEmpty(what, shard, m, want)
	for id, key := range m.ids {
		// Of a key that has no id the table may have one already, which an entry is still to give.
		ref, known, err := n.e.index.Lookup(series.Key(key))
		want, wanted := m.idOf(key)
		if err != nil || wanted && (!known || uint32(ref.ID) != want) || !wanted && known && int(ref.ID) < len(m.ids) {
			n.t.Fatalf("%s: %s of shard %d has id %d (%v), %v, want %d (%v)", what, series.Key(key), shard, ref.ID, known, err, want, wanted)
		}
		_, gone := m.gone[uint32(id)]
		if k, err := n.e.index.KeyOf(uint16(shard), series.ID(id), nil); (err != nil || string(k) != key) && !(gone && errors.Is(err, index.ErrUnknown)) {
			n.t.Fatalf("%s: series %d of shard %d is %s, %v, want %s", what, id, shard, k, err, series.Key(key))
		}
	}
}

// compareEmpty looks for series without samples, of which at least all have none.
func (n *labNode) compareEmpty(what string, shard int, m *slowShard, want map[string]map[int64]uint64) {
	n.t.Helper()
	var w EmptyWalk
	for done := false; !done; {
		var seen map[uint16][]uint32
		seen, done = n.e.Walk(&w, 7, 3, func(of uint16) bool { return int(of) == shard })
		empty, after := n.e.EmptySeries(uint16(shard), seen[uint16(shard)])
		if len(empty) > 0 && after != n.appliedTo(shard) {
			n.t.Fatalf("%s: series %v without samples after entry %d, not %d", what, empty, after, n.appliedTo(shard))
		}
		for _, id := range empty {
			if int(id) < len(m.ids) && (m.gone[id] || len(want[m.ids[id]]) > 0) {
				n.t.Fatalf("%s: series %d of shard %d may be forgotten after entry %d, but it is %v, or has %d samples",
					what, id, shard, after, m.gone[id], len(want[m.ids[id]]))
			}
		}
		n.empty += len(empty)
	}
}

// compareLast asks for the newest sample of each series.
func (n *labNode) compareLast(what string, shard int, want map[string]map[int64]uint64) {
	n.t.Helper()
	count := 0
	err := n.e.Last(context.Background(), &scan.Selector{MetricAny: true, Shards: []uint16{uint16(shard)}}, scan.TimeMsMin, scan.Limits{}, func(p scan.Point) error {
		count++
		samples := want[string(p.Key)]
		newest := int64(math.MinInt64)
		for at := range samples {
			newest = max(newest, at)
		}
		if p.TimeMs != newest || math.Float64bits(p.Value) != samples[newest] {
			return fmt.Errorf("the last sample of %s is at %d, want %d", p.Key, p.TimeMs, newest)
		}
		return nil
	})
	if err != nil || count != len(want) {
		n.t.Fatalf("%s: shard %d has a last sample of %d series of %d, %v", what, shard, count, len(want), err)
	}
}

// compareDays asks for single days that have samples, from some moment of them on.
func (n *labNode) compareDays(what string, shard int, want map[string]map[int64]uint64) {
	n.t.Helper()
	const dayMs = 24 * 3600_000
	days := map[int64]bool{}
	for _, samples := range want {
		for at := range samples {
			days[at-at%dayMs] = true
		}
	}
	const daysTried = 6
	for i, fromMs := range slices.Sorted(maps.Keys(days)) {
		if len(days) > daysTried && i%(len(days)/daysTried) != 0 {
			continue
		}
		toMs := fromMs + dayMs - 1
		for _, fromMs := range [...]int64{fromMs, fromMs + dayMs/2} {
			of := within(want, fromMs, toMs)
			got, err := n.contentsBetween(shard, fromMs, toMs)
			if err != nil || !maps.EqualFunc(got, of, maps.Equal[map[int64]uint64, map[int64]uint64]) {
				n.t.Fatalf("%s: shard %d from %d to %d: %s, %v", what, shard, fromMs, toMs, labDifference(of, got), err)
			}
			last := 0
			if err := n.e.Last(context.Background(), &scan.Selector{MetricAny: true, Shards: []uint16{uint16(shard)}}, fromMs, scan.Limits{}, func(scan.Point) error {
				last++
				return nil
			}); err != nil || last != len(within(want, fromMs, scan.TimeMsMax)) {
				n.t.Fatalf("%s: shard %d has %d last samples from %d on, want %d, %v", what, shard, last, fromMs, len(within(want, fromMs, scan.TimeMsMax)), err)
			}
		}
	}
}

// within returns the samples in a range of time.
func within(contents map[string]map[int64]uint64, fromMs, toMs int64) map[string]map[int64]uint64 {
	found := map[string]map[int64]uint64{}
	for key, samples := range contents {
		for at, v := range samples {
			if at < fromMs || at > toMs {
				continue
			}
			if found[key] == nil {
				found[key] = map[int64]uint64{}
			}
			found[key][at] = v
		}
	}
	return found
}

func labDifference(want, got map[string]map[int64]uint64) string {
	for key, samples := range want {
		for at, v := range samples {
			if g, ok := got[key][at]; !ok {
				return fmt.Sprintf("%s at %d is missing", series.Key(key), at)
			} else if g != v {
				return fmt.Sprintf("%s at %d is %x, want %x", series.Key(key), at, g, v)
			}
		}
	}
	for key, samples := range got {
		for at := range samples {
			if _, ok := want[key][at]; !ok {
				return fmt.Sprintf("%s at %d should not be there", series.Key(key), at)
			}
		}
	}
	return "series without samples"
}

func newLabLogs() (logs []*labLog) {
	for shard := range uint16(labShards) {
		logs = append(logs, newLabLog(shard))
	}
	return logs
}

// liveThroughCrashes grows and applies the logs, with maintenance and power cuts at any moment, and
// checks what is there now and then and after a last power cut.
func (n *labNode) liveThroughCrashes(rng *rand.Rand, steps int) {
	for step := range steps {
		shard := rng.IntN(labShards)
		for range rng.IntN(4) {
			n.logs[shard].grow(rng)
		}
		n.apply(shard, math.MaxInt)
		if rng.IntN(4) == 0 {
			if err := n.maintain(rng); err != nil {
				n.t.Fatal(err)
			}
		}
		if rng.IntN(12) == 0 {
			n.crash(rng)
		}
		if rng.IntN(8) == 0 {
			n.check(fmt.Sprintf("step %d", step))
		}
	}
	n.crash(rng)
	n.check("at the end")
}

// TestBatchIDsThroughCrashes repeats batches before and after power cuts, with
// checkpoints and flushes at any moment: each is applied once, and those of which only
// the log has the samples are applied by the replay.
func TestBatchIDsThroughCrashes(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 6))
			logs := newLabLogs()
			n := newLabNode(t, logs)
			n.hosts = [labShards]bool{true, true, true}
			n.liveThroughCrashes(rng, 120)
			n.end()
		})
	}
}
