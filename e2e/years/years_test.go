package years

import (
	"flag"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/node"
)

var (
	seed = flag.Uint64("seed", 0, "of all that happens; 0: a new one")
	long = flag.Bool("long", false, "play 90 days with 1,000 pods on a real folder")
	year = flag.Bool("year", false, "play a year with 10,000 pods on a real folder")
	days = flag.Int("days", 0, "how long; 0: as the form has it")
	verb = flag.Bool("log", false, "print what the node logs")
)

// options are those of a node with little of everything, so that a short life has many files.
func options() node.Options {
	return node.Options{
		Shards: 4, Sync: node.SyncAlways, FlushInterval: time.Hour, CheckpointBytes: 512 << 10,
		LogFileBytes: 256 << 10, ExtentBytes: 256 << 10, GenerationBytesMax: 2 << 20, PersistSeriesMin: 256,
	}
}

func newLife(t *testing.T) *Life {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() & 0xffff_ffff)
	}
	t.Logf("-seed %d", *seed)
	y := &Life{
		Config:  Config{Seed: *seed, Days: 30, Step: 10 * time.Minute, Pods: 200, Devices: 50, History: 10, HistoryDays: 60, Scratch: 10},
		Options: options(), Disk: newMemoryDisk(), Logger: slog.New(slog.DiscardHandler),
	}
	if *days > 0 {
		y.Config.Days = *days
	}
	if *verb {
		y.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return y
}

func TestYears(t *testing.T) {
	y := newLife(t)
	begin := time.Now()
	err := y.Play(func(day int) {
		if testing.Verbose() {
			t.Logf("day %d after %.1f s", day, time.Since(begin).Seconds())
		}
	})
	t.Logf("%+v", y.counts)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	y.Figures.WriteTable(&table)
	t.Logf("\n%s", &table)
	if testing.Verbose() {
		for i := range y.Figures {
			t.Logf("%s: %.0f", y.Figures[i].title(), y.Figures[i].Values)
		}
	}
	if err := y.Figures.Drift(); err != nil {
		t.Error(err)
	}
}
