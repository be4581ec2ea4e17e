package crash

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

var (
	kills   = flag.Int("kills", 50, "kills for each --wal-sync mode")
	seed    = flag.Uint64("seed", 1, "what is written and when it is killed")
	dataDir = flag.String("data-dir", "", "keep data folders here (default: a folder that is kept on failure only)")
)

// TestStandaloneSurvivesKills kills the real binary. It needs some minutes.
func TestStandaloneSurvivesKills(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds, starts and kills the real server for minutes")
	}
	binary, err := harness.Build(t.Context(), t.TempDir(), "-tags=invariants")
	if err != nil {
		t.Fatal(err)
	}
	names, err := Failpoints(t.Context(), binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"interval", "always"} {
		t.Run("wal-sync="+mode, func(t *testing.T) {
			dir, err := os.MkdirTemp(*dataDir, "tickmesh-crash-"+mode+"-")
			if err != nil {
				t.Fatal(err)
			}
			config := DefaultConfig()
			config.Seed, config.Kills, config.Failpoints = *seed, *kills, names
			server := NewStandalone(harness.StandaloneOptions{
				Binary: binary, DataDir: filepath.Join(dir, "data"), WALSync: mode, Extra: SmallFlags(),
			})
			report, err := Run(t.Context(), config, server)
			t.Log(report)
			if err != nil {
				t.Fatalf("%v\nthe data folder is kept: %s", err, dir)
			}
			if *dataDir == "" {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			}
			if len(report.Failpoints) == 0 && len(names) > 0 {
				t.Errorf("no failpoint was reached: %s", report)
			}
		})
	}
}
