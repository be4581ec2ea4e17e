package years

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/node"
)

var (
	// What decides about a change plays the same life each time: whether figures drift is told from two
	// weeks of chance.
	seed    = flag.Uint64("seed", 12, "of all that happens; 0: a new one")
	long    = flag.Bool("long", false, "play 90 days with 1,000 pods a day, on a real folder")
	year    = flag.Bool("year", false, "play a year with 10,000 pods a day, on a real folder")
	nodes   = flag.Int("nodes", 1, "how many are a cluster, each with a copy of all; 1: there is none")
	days    = flag.Int("days", 0, "how long; 0: as the form has it")
	pods    = flag.Int("pods", 0, "how many live at once; 0: as the form has it")
	memory  = flag.Bool("memory-disk", false, "play a long form on a disk in memory, which loses in a power cut what was not synced")
	quiet   = flag.Bool("quiet", false, "the machine does nothing else: times may not grow either")
	results = flag.String("results", "", "a folder to write the table and a picture of each figure into, as RESULTS.md has them")
	logs    = flag.Bool("log", false, "print what the node warns of")
)

// newLife returns the life of the form that was asked for.
func newLife(t *testing.T) *Life {
	t.Helper()
	if *seed == 0 {
		*seed = 1 + rand.Uint64N(1<<32)
	}
	t.Logf("play it again with: go test ./e2e/years -args -seed %d", *seed)
	y := &Life{
		Config: Config{Days: 28, Step: 20 * time.Minute, Pods: 200, Devices: 50, History: 10, HistoryDays: 60, Scratch: 10, Energy: 10},
		// Little of everything, so that a short life has many files.
		Options: node.Options{
			Shards: 4, Sync: node.SyncAlways, FlushInterval: 3 * time.Hour, CheckpointBytes: 512 << 10,
			LogFileBytes: 256 << 10, ExtentBytes: 256 << 10, GenerationBytesMax: 2 << 20, PersistSeriesMin: 256, ForgetSeries: true,
		},
		Nodes: 1, NewDisk: func(string) Disk { return newMemoryDisk() }, Logger: slog.New(slog.DiscardHandler),
	}
	if *long || *year {
		y.Config = Config{Days: 90, Step: 20 * time.Minute, Pods: 1000, Devices: 100, History: 10, HistoryDays: 60, Scratch: 10, Energy: 10}
		y.Options = node.Options{
			Shards: 8, Sync: node.SyncInterval, FlushInterval: time.Hour, CheckpointBytes: 4 << 20,
			LogFileBytes: 1 << 20, ExtentBytes: 1 << 20, GenerationBytesMax: 16 << 20, ForgetSeries: true,
		}
		if !*memory {
			y.NewDisk = func(node string) Disk { return newFolderDisk(filepath.Join(t.TempDir(), node)) }
		}
	}
	if *year {
		y.Config.Days, y.Config.Step, y.Config.Pods = 366, time.Hour, 10_000
	}
	y.Nodes = *nodes
	if *days > 0 {
		y.Config.Days = *days
	}
	if *pods > 0 {
		y.Config.Pods = *pods
	}
	y.Config.Seed, y.BackupFolder = *seed, t.TempDir()
	if *logs {
		y.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return y
}

func TestYears(t *testing.T) {
	y := newLife(t)
	if y.Config.Days < 3*weekDays {
		t.Fatalf("%d days: the first two weeks cannot be compared with the last one", y.Config.Days)
	}
	begin := time.Now()
	err := y.Play(func(day int) {
		if day%weekDays == weekDays-1 {
			t.Logf("day %d after %.0f s", day, time.Since(begin).Seconds())
		}
	})
	t.Logf("%+v", y.counts)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	y.Figures.WriteTable(&table)
	t.Logf("\n%s", &table)
	if *results != "" {
		if err := y.Figures.write(*results, table.String()); err != nil {
			t.Error(err)
		}
	}
	if err := y.Figures.Drift(*quiet); err != nil {
		t.Errorf("figures do not follow what is live and retained:\n%v", err)
	}
}

// TestThree plays eight days of a cluster of three: each kind of event once, at another node each day. Whole lives of a cluster
// are played with -nodes 3.
func TestThree(t *testing.T) {
	y := newLife(t)
	y.Nodes, y.NewDisk = 3, func(string) Disk { return newMemoryDisk() }
	y.Config.Days, y.Config.Pods, y.Config.Devices = weekDays+1, 30, 20
	if err := y.Play(nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", y.counts)
	if c := &y.counts; c.Kills == 0 || c.PowerCuts == 0 || c.CleanStops == 0 || c.FullHours == 0 || c.SlowReads == 0 || c.Restores == 0 {
		t.Errorf("not all was played: %+v", c)
	}
}

// write writes the table and the pictures.
func (fs Figures) write(folder, table string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("the folder of the results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "table.md"), []byte(table), 0o644); err != nil {
		return fmt.Errorf("the table: %w", err)
	}
	for i := range fs {
		if err := os.WriteFile(filepath.Join(folder, fs[i].file()), []byte(fs[i].SVG()), 0o644); err != nil {
			return fmt.Errorf("a picture: %w", err)
		}
	}
	return nil
}
