package auditor

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

var (
	every   = flag.Bool("every", false, "play every scenario, not only the core ones")
	long    = flag.Bool("long", false, "play every scenario, in full length")
	seed    = flag.Uint64("seed", 1, "what is written, and which process is hit")
	kills   = flag.Int("kills", 50, "kills of each scenario of one server")
	dataDir = flag.String("data-dir", "", "keep data folders and logs here (default: a folder that is kept on failure only)")
	binary  = flag.String("binary", "", "the tickmesh binary (default: built from this module)")
)

// TestScenarios plays faults on clusters of real processes.
func TestScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds, starts and kills real clusters for minutes")
	}
	programs := t.TempDir()
	path := *binary
	if path == "" {
		var err error
		if path, err = harness.Build(t.Context(), programs, "-tags=invariants"); err != nil {
			t.Fatal(err)
		}
	}
	etcd, err := harness.BuildEtcd(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	for _, scenario := range Scenarios() {
		if !scenario.Core && !*every && !*long {
			continue
		}
		t.Run(scenario.Name, func(t *testing.T) {
			dir, err := os.MkdirTemp(*dataDir, "tickmesh-auditor-")
			if err != nil {
				t.Fatal(err)
			}
			report, err := scenario.Run(t.Context(), StageOptions{
				Binary: path, EtcdBinary: etcd, Dir: filepath.Join(dir, "cluster"), Seed: *seed, Kills: *kills, Long: *long, Log: t.Logf,
			})
			if errors.Is(err, harness.ErrNoDisk) {
				t.Skipf("cannot be played here: %v", err)
			}
			t.Log(report)
			if err != nil {
				t.Fatalf("%v\nseed %d; data folders and logs are kept: %s", err, *seed, dir)
			}
			if *dataDir == "" {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
