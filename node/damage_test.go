package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// filesBelow lists the files of a folder.
func filesBelow(t *testing.T, fs vfs.FS, dir string) (files []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		full := path.Join(dir, name)
		info, err := fs.Stat(full)
		switch {
		case err != nil:
			t.Fatal(err)
		case info.Dir:
			files = append(files, filesBelow(t, fs, full)...)
		case info.Size > 0:
			files = append(files, full)
		}
	}
	return files
}

// flip changes one bit of a file, of those that are not zero if there are any near.
func flip(t *testing.T, fs vfs.FS, name string, rng *rand.Rand) {
	t.Helper()
	f, err := fs.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	var at int64
	for range 1000 { // files may be preallocated, and zeros are nobody's data
		at = rng.Int64N(size)
		if _, err := f.ReadAt(b[:], at); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if b[0] != 0 {
			break
		}
	}
	b[0] ^= 1 << rng.IntN(8)
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// filled returns a disk with samples in all kinds of files, none of them written
// twice, and a log that defines series and names them by their ids.
func filled(t *testing.T, seed uint64) (*vfs.MemFS, model) {
	t.Helper()
	fs := vfs.NewMemFS()
	n := mustOpen(t, testOptions(fs, SyncAlways))
	rng := rand.New(rand.NewPCG(seed, 21))
	m := model{}
	now := int64(1_700_000_000_000)
	fill := func(rounds, hosts int) {
		for range rounds {
			now += 120_000
			w := &testWriter{node: n}
			for i := range 40 {
				key, at, v := testKey(rng.IntN(hosts)), now+int64(i)*1000, float64(rng.IntN(1e6))/100
				w.add(key, at, v)
				m.put(key, at, v)
			}
			if err := w.send(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(20, 10)
	for _, finish := range []func() error{func() error { return n.CompactAll(context.Background()) }, n.sealEverything} {
		if err := finish(); err != nil {
			t.Fatal(err)
		}
		fill(20, 25)
	}
	fill(30, 60) // series that only the log defines
	// The log's last records cannot be told from those that a power cut has torn: let
	// them be ones that say nothing.
	for range 2 {
		if err := n.cut(context.Background(), &retentionPlan{wholeMs: scan.TimeMsMin}); err != nil {
			t.Fatal(err)
		}
	}
	killed := fs.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	return killed, m
}

// readable reads all series from a time on, one by one, so that an error costs its
// series alone.
func readable(t *testing.T, n *Node, fromMs int64) (got model, failures []error) {
	t.Helper()
	got = model{}
	for i := range 60 {
		err := n.Scan(context.Background(), &scan.Request{
			Selector: scan.Selector{
				Metric:   fmt.Sprintf("m%d", i%3),
				Matchers: []scan.Matcher{{Name: "host", Kind: scan.MatchEqual, Values: []string{fmt.Sprintf("h%d", i)}}},
			}, FromMs: fromMs, ToMs: scan.TimeMsMax,
		}, func(_ int, c *scan.Chunk) error {
			for i := range c.Times {
				got.put(c.Key, c.Times[i], c.Values[i])
			}
			return nil
		})
		if err != nil {
			failures = append(failures, err)
			delete(got, string(testKey(i)))
		}
	}
	return got, failures
}

// TestFlippedBits changes bits in every kind of file. A node then refuses to start,
// or serves what is whole; it never returns a value that was not written, and what is
// missing has been reported.
func TestFlippedBits(t *testing.T) {
	disk, m := filled(t, 1)
	var kinds []string
	byKind := map[string][]string{}
	for _, name := range filesBelow(t, disk, "data") {
		kind := strings.Split(strings.TrimPrefix(name, "data/"), "/")[0]
		if kind == "LOCK" || strings.HasSuffix(name, "LOCK") {
			continue
		}
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], name)
	}
	if len(kinds) != 6 {
		t.Fatalf("kinds of files: %v", kinds)
	}
	for _, kind := range kinds {
		for seed := range uint64(storagetest.Seeds(10)) {
			t.Run(fmt.Sprintf("%s/%d", kind, seed), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(seed, 22))
				fs := disk.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
				name := byKind[kind][rng.IntN(len(byKind[kind]))]
				for range 1 + rng.IntN(3) {
					flip(t, fs, name, rng)
				}
				checkDamaged(t, fs, name, m)
			})
		}
	}
}

func checkDamaged(t *testing.T, fs *vfs.MemFS, name string, m model) {
	n, err := Open(testOptions(fs, SyncAlways))
	if err != nil {
		if !strings.Contains(err.Error(), path.Base(name)) {
			t.Fatalf("the error does not name %s: %v", name, err)
		}
		return
	}
	checkReadable(t, n, name, m)
	// It takes writes, too, and does not mix them up with what was lost.
	const laterMs = 1_800_000_000_000
	w := &testWriter{node: n}
	want := model{}
	for i := range 60 {
		w.add(testKey(i), laterMs, float64(i))
		want.put(testKey(i), laterMs, float64(i))
	}
	if err := w.send(context.Background()); err != nil {
		t.Fatal(err)
	}
	checkLater(t, n, name, want)
	killed := fs.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
	_ = n.Close()
	n = mustOpen(t, testOptions(killed, SyncAlways))
	checkLater(t, n, name+" after a kill", want)
	n = reopen(t, n, testOptions(killed, SyncAlways))
	checkLater(t, n, name+" after a restart", want)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkLater reads what was written after the damage. While a damaged page waits
// for its flush, its series give an error that names it.
func checkLater(t *testing.T, n *Node, name string, want model) {
	t.Helper()
	got, failures := readable(t, n, 1_800_000_000_000)
	for _, err := range failures {
		if !strings.Contains(err.Error(), "data/pages") {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for k := range want {
		if len(got[k]) == 0 && len(failures) > 0 {
			failures = failures[1:]
			got[k] = want[k]
		}
	}
	if diff := differences(want, got); len(diff) > 0 {
		t.Fatalf("%s: %q", name, diff)
	}
}

func checkReadable(t *testing.T, n *Node, name string, m model) {
	t.Helper()
	got, failures := readable(t, n, scan.TimeMsMin)
	missing := 0
	for k, samples := range m {
		missing += len(samples) - len(got[k])
	}
	for k, samples := range got {
		for at, v := range samples {
			if want, ok := m[k][at]; !ok || want != v {
				t.Fatalf("damage in %s: %s at %d is %x, want %x (%v)", name, series.Key(k), at, v, want, ok)
			}
		}
	}
	s := n.engine.Stats()
	reported := s.Corruptions + n.log.Stats().Corruptions + n.log.Stats().TornBytes
	if missing > 0 && len(failures) == 0 && reported == 0 {
		t.Fatalf("damage in %s: %d samples are missing without a word", name, missing)
	}
}
