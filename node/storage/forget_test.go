package storage

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
)

// TestLostMarksForgetNothing: series whose marks have gone from the disk are not taken for series without samples, and are
// found again.
func TestLostMarksForgetNothing(t *testing.T) {
	n := newLabNode(t, newLabLogs())
	n.hosts = [labShards]bool{true, true, true}
	for shard, l := range n.logs {
		l.put(l.keys, l.nowMs)
		l.put(l.keys[:3], l.nowMs-50*24*3600_000)
		n.apply(shard, 2)
	}
	for _, do := range []func() error{n.checkpoint, n.checkpoint, n.e.Flush} { // no hot pages, and nothing in the page log
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	n.end()
	n.damaged = true
	names, err := n.fs.List("data/" + dirIndex)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "active-") || strings.HasPrefix(name, "days-") {
			if err := n.fs.Remove(path.Join("data", dirIndex, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.open()
	var w EmptyWalk
	walk := func() map[uint16][]uint32 {
		ids, done := n.e.Walk(&w, 1<<20, 1<<20, func(uint16) bool { return true })
		for shard, list := range ids {
			if len(list) > 0 || !done {
				t.Fatalf("series %v of shard %d seem to be empty, %v", list, shard, done)
			}
		}
		return ids
	}
	if before := n.e.Stats().Corruptions; len(walk()) != labShards || n.e.Stats().Corruptions == before {
		t.Fatal("the marks were not lost, or nobody is told")
	}
	if len(walk()) > 0 {
		t.Fatal("the marks are still lost")
	}
	n.check("after the walk")
	n.end()
}

// TestForgetIsLost: the log has lost an entry that forgot a series, and the table on disk has the series' next id: samples
// that name it are found.
func TestForgetIsLost(t *testing.T) {
	for name, of := range map[string]struct {
		checkpoints, lost int
	}{
		"behind a checkpoint":           {2, 1}, // the first entry is not replayed
		"replayed from its first entry": {0, 1},
		"with all before it":            {0, 3},
	} {
		t.Run(name, func(t *testing.T) { testForgetIsLost(t, of.checkpoints, of.lost) })
	}
}

// testForgetIsLost loses so many entries of which the third, which forgets, is the last.
func testForgetIsLost(t *testing.T, checkpoints, lost int) {
	n := newLabNode(t, newLabLogs())
	l := n.logs[0]
	l.put(l.keys[:1], l.nowMs)
	l.removeAll(l.keys[:1])
	l.add(entry.Forget, entry.ForgetBody(2, []uint32{0}), func(*slowShard) {})
	l.put(l.keys[:1], l.nowMs+1)
	var e series.BatchEncoder
	e.Append(1, l.nowMs+2, 5, 0) // by its new id
	batch := e.AppendTo(nil)
	l.add(entry.Samples, append(entry.AppendBatchHeader(entry.AppendTime(nil, l.nowMs), series.BatchID{}, len(batch)), batch...), func(*slowShard) {})
	n.apply(0, 1)
	for range checkpoints {
		if err := n.checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	n.apply(0, len(l.entries))
	for _, replayed := range []int{2, len(l.entries)} { // the table is made durable, but for a checkpoint, also in the middle of a replay
		if err := n.e.RenewIncarnation(); err != nil {
			t.Fatal(err)
		}
		n.end()
		var err error
		if n.e, err = Open(n.options()); err != nil {
			t.Fatal(err)
		}
		for i := range l.entries[:replayed] {
			if i <= 2 && i > 2-lost {
				continue
			}
			if err := n.e.Replay(uint64(i), &l.entries[i].entry); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.e.TrustIDs()
	found, err := n.contents(0)
	if err != nil {
		t.Fatal(err)
	}
	if got := found[string(l.keys[0])]; len(got) != 2 {
		t.Fatal(got)
	}
	n.end()
}

// TestForgetIsLostWithTheEnd: the log has lost its end with an entry that forgot a series, and another entry has its number: the
// series has what it gets from then on.
func TestForgetIsLostWithTheEnd(t *testing.T) {
	n := newLabNode(t, newLabLogs())
	n.hosts[0] = true
	l := n.logs[0]
	l.put(l.keys[:1], l.nowMs)
	l.removeAll(l.keys[:1])
	n.apply(0, 1)
	for range 2 {
		if err := n.checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	n.apply(0, 1)
	lost := entry.Entry{Kind: entry.Forget, Shard: 0, Index: 3, Body: entry.ForgetBody(2, []uint32{0})}
	if err := n.e.Apply(n.epoch, &lost); err != nil {
		t.Fatal(err)
	}
	if err := n.e.RenewIncarnation(); err != nil { // the table is made durable, but for a checkpoint
		t.Fatal(err)
	}
	n.end()
	n.open()
	l.put(l.keys[:1], l.nowMs+1)
	n.apply(0, 1)
	n.check("with another end")
	for range 2 {
		if err := n.checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	n.end()
	n.open()
	n.check("after a start")
	n.end()
}

// TestForgottenSeriesComesBackBeforeItIsDropped: keys of series that are forgotten here are dropped while files come of a replica that has
// not forgotten them.
func TestForgottenSeriesComesBackBeforeItIsDropped(t *testing.T) {
	logs := newLabLogs()
	from, to := newLabNode(t, logs), newLabNode(t, logs)
	from.hosts[0], to.hosts[0], to.hosts[1] = true, true, true
	l := logs[0]
	l.put(l.keys, l.nowMs)
	logs[1].put(logs[1].keys, logs[1].nowMs)
	from.apply(0, 1)
	l.removeAll(l.keys)
	l.add(entry.Forget, entry.ForgetBody(2, []uint32{0, 1}), func(m *slowShard) {
		for _, id := range []uint32{0, 1} {
			delete(m.samples, m.ids[id])
			m.gone[id] = true
		}
	})
	to.apply(0, 3)
	to.apply(1, 1)
	held, err := to.e.ExportShard(1) // keeps keys
	if err != nil {
		t.Fatal(err)
	}
	checkpoints := func() error {
		for range 3 {
			if err := to.checkpoint(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := checkpoints(); err != nil {
		t.Fatal(err)
	}
	if err := to.e.DropShard(0, uint64(len(to.written))); err != nil {
		t.Fatal(err)
	}
	to.hosts[0] = false
	err = installAround(from, to, func() error {
		if err := held.Close(); err != nil {
			return err
		}
		return checkpoints()
	})
	if err != nil {
		t.Fatal(err)
	}
	to.check("as the files came")
	to.apply(0, 3)
	to.check("when the series are forgotten again")
	if err := checkpoints(); err != nil {
		t.Fatal(err)
	}
	if !to.e.index.Gone(0, 0) {
		t.Fatal("keys are held for ever")
	}
	from.end()
	to.end()
}

// TestForgetWithoutAReadableKey: where the key of a series cannot be read, an entry that forgets it is applied as elsewhere.
func TestForgetWithoutAReadableKey(t *testing.T) {
	n := newLabNode(t, newLabLogs())
	l := n.logs[0]
	l.put(l.keys, l.nowMs)
	cuts := retention.Cuts{OtherMs: l.nowMs + 1}
	l.add(entry.RuleCuts, retention.Encode(&cuts), func(*slowShard) {})
	l.add(entry.Forget, entry.ForgetBody(2, []uint32{0}), func(*slowShard) {})
	n.apply(0, 2)
	key, err := n.e.index.KeyOf(0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	fillKeyBlock(t, n)
	damageKey(t, n, key)
	if _, err := n.e.index.KeyOf(0, 0, nil); err == nil {
		t.Fatal("the key can be read")
	}
	n.apply(0, 1)
	if !n.e.HasForgotten(0, 0) {
		t.Fatal("the series is not forgotten")
	}
	n.end()
}

// fillKeyBlock creates series of another shard until the keys before them are read from the file.
func fillKeyBlock(t *testing.T, n *labNode) {
	t.Helper()
	for id := range series.ID(6) {
		key := series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("x"), Value: bytes.Repeat([]byte{'a' + byte(id)}, 60_000)}})
		if _, err := n.e.index.Create(2, id, key, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// damageKey changes a byte of a key in its file.
func damageKey(t *testing.T, n *labNode, key series.Key) {
	t.Helper()
	file, err := n.fs.OpenReadWrite(path.Join("data", dirIndex, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := make([]byte, 1<<18)
	if _, err := file.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, key)
	if at < 0 {
		t.Fatal("the key is not in the file")
	}
	if _, err := file.WriteAt([]byte{key[0] ^ 1}, int64(at)); err != nil {
		t.Fatal(err)
	}
}

// TestLostKeysAreNoForgottenOnes: a list without a series whose key is lost would look complete.
func TestLostKeysAreNoForgottenOnes(t *testing.T) {
	n := newLabNode(t, newLabLogs())
	n.hosts[0] = true
	l := n.logs[0]
	l.put(l.keys, l.nowMs)
	n.apply(0, 1)
	for id := range series.ID(5000) { // their places are in a file
		if _, err := n.e.index.Create(2, id, series.AppendKey(nil, nil, []byte("other"), []series.Tag{{Name: []byte("x"), Value: fmt.Appendf(nil, "%0100d", id)}}), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.checkpoint(); err != nil {
		t.Fatal(err)
	}
	list := func() (count int, err error) {
		_, err = n.e.SeriesBetween(context.Background(), &scan.Selector{MetricAny: true, Shards: []uint16{0}}, scan.TimeMsMin, scan.TimeMsMax, 0,
			func(series.Key) error { count++; return nil })
		return count, err
	}
	if count, err := list(); err != nil || count != len(l.keys) {
		t.Fatal(count, err)
	}
	damageKey(t, n, l.keys[0])
	file, err := n.fs.OpenReadWrite(path.Join("data", dirIndex, "offsets"))
	if err != nil {
		t.Fatal(err)
	}
	const placesAt = 16 + 8 + 8 // behind the header, the chunk's sum and number, and its base
	if _, err := file.WriteAt([]byte{0xff, 0xff, 0xff, 0x7f}, placesAt); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if count, err := list(); err == nil {
		t.Fatalf("%d of %d series are listed without a word", count, len(l.keys))
	}
	n.end()
}
