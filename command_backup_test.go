package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/archive"
)

// TestBackupRestore backs a server up, with kills in between, restores that elsewhere, and
// looks for each bit; and damages the backup.
func TestBackupRestore(t *testing.T) {
	t.Parallel()
	from, to := startServer(t, t.TempDir(), "--query-samples-max", "50"), startServer(t, t.TempDir())
	source, target := connect(t, from), connect(t, to)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	databases := []string{"", "one", troublesome(random)}
	want := map[string]map[string]uint64{}
	total := 0
	for _, database := range databases {
		want[database] = map[string]uint64{}
		list := randomSamples(t, random, database, 40)
		if err := source.Write(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			want[database][sampleName(x.Series, x.TimeMs)] = math.Float64bits(x.Value)
		}
		total += len(want[database])
	}
	dir := filepath.Join(t.TempDir(), "backup")
	arguments := []string{"backup", "--addr", from.addr["grpc"], "--file-bytes", "2000", dir}
	for range 4 {
		killInTheMiddle(t, dir, arguments...)
	}
	code, stdout, stderr := run(t, nil, arguments...)
	m, err := archive.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.FinishedMs == 0 || m.Samples() != int64(total) || len(m.Files) < 3 {
		t.Fatalf("%d %s %s: %d samples in %d files, want %d", code, stdout, stderr, m.Samples(), len(m.Files), total)
	}
	if code, _, stderr := run(t, nil, arguments...); code != 1 || !strings.Contains(stderr, "complete backup") {
		t.Errorf("into a complete backup: %d %s", code, stderr)
	}

	restore := []string{"restore", "--addr", to.addr["grpc"], dir}
	path := filepath.Join(dir, m.Files[1].Name)
	intact, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte{}, intact...)
	damaged[len(damaged)/2] ^= 1
	for _, content := range [][]byte{damaged, intact[:len(intact)-1], nil} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(t, nil, restore...)
		if code != 1 || !strings.Contains(stderr, path) || !strings.Contains(stderr, "damaged") {
			t.Errorf("a damaged backup: %d %q %q", code, stdout, stderr)
		}
	}
	if list, err := target.Databases(t.Context(), client.Names{}); err != nil || len(list) > 0 {
		t.Errorf("a damaged backup was written: %q %v", list, err)
	}
	if err := os.WriteFile(path, intact, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := run(t, nil, append(restore, "--verify")...); code != 1 || !strings.Contains(stdout, "has 0 series and 0 samples") {
		t.Errorf("an empty server is as the backup: %q", stdout)
	}
	for range 2 {
		code, stdout, stderr := run(t, nil, restore...)
		if code != 0 || stdout != "" || !strings.HasPrefix(stderr, fmt.Sprintf("%d samples written", total)) {
			t.Fatalf("%d %q %q", code, stdout, stderr)
		}
		if code, stdout, stderr := run(t, nil, append(restore, "--verify")...); code != 0 {
			t.Fatalf("verify: %d %q %q", code, stdout, stderr)
		}
	}
	for _, database := range databases {
		got := contents(t, target, database)
		for name, bits := range want[database] {
			if b, ok := got[name]; !ok || b != bits {
				t.Fatalf("%q: %s is %x, %v; want %x", database, name, b, ok, bits)
			}
		}
		if len(got) != len(want[database]) {
			t.Errorf("%q: %d samples, want %d", database, len(got), len(want[database]))
		}
	}
}

// killInTheMiddle starts a backup and kills it when a file is complete that was not.
func killInTheMiddle(t *testing.T, dir string, arguments ...string) {
	t.Helper()
	before := 0
	if m, err := archive.ReadManifest(dir); err == nil {
		before = len(m.Files)
	}
	cmd := exec.Command(binary, arguments...)
	cmd.Env = cleanEnviron()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed, or quick
	}()
	defer func() { <-ended }()
	waitFor(t, "a file", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		m, err := archive.ReadManifest(dir)
		return err == nil && len(m.Files) > before
	})
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// TestMissing compares what is left of all times with a look at single times.
func TestMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var done []timeRange
		from := int64(scan.TimeMsMin)
		if rapid.Bool().Draw(t, "gap at the start") {
			from += 5
		}
		for range rapid.IntRange(0, 4).Draw(t, "ranges") {
			to := from + rapid.Int64Range(0, 5).Draw(t, "length")
			done = append(done, timeRange{from, to})
			from = to + 1 + rapid.Int64Range(0, 3).Draw(t, "gap")
		}
		if len(done) > 0 && rapid.Bool().Draw(t, "to the end") {
			done[len(done)-1].to = scan.TimeMsMax
		}
		left := missing(done)
		in := func(ranges []timeRange, ms int64) (n int) {
			for _, r := range ranges {
				if r.from <= ms && ms <= r.to {
					n++
				}
			}
			return n
		}
		for _, first := range []int64{scan.TimeMsMin, scan.TimeMsMax - 50} {
			for ms := first; ms <= first+50; ms++ {
				if in(left, ms)+in(done, ms) != 1 {
					t.Fatalf("%d is in %d of %v and %d of %v", ms, in(left, ms), left, in(done, ms), done)
				}
			}
		}
	})
}
