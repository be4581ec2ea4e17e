package opentsdbdiff

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

// importAll follows the page of moving from OpenTSDB: all that a real one was told has to be in a server afterwards, as
// it was told.
func importAll(t *testing.T, theirs string, points []point) {
	t.Helper()
	want := map[string]float64{}
	for i := range points {
		p := &points[i]
		v, err := strconv.ParseFloat(p.value, 64)
		if err != nil {
			t.Fatal(err)
		}
		tags := make([]client.Tag, 0, len(p.tags))
		for _, k := range sortedKeys(p.tags) {
			tags = append(tags, client.Tag{Name: k, Value: p.tags[k]})
		}
		want[sampleName(client.MustSeries(p.metric, tags...), p.timeMs)] = v
	}
	free, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	harnesstest.Standalone(t, "--grpc-addr", free[0])
	command := exec.CommandContext(t.Context(), harnesstest.Build(t), "import", "--addr", free[0], "--from", "opentsdb", "http://"+theirs,
		"--start", "2023-11-14", "--end", "2023-11-16", "--checkpoint", filepath.Join(t.TempDir(), "checkpoint"))
	told, err := command.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(told), fmt.Sprintf("%d samples copied, %d compared\n", len(want), len(want))) {
		t.Fatalf("%v %s", err, told)
	}
	c, err := client.New(client.Options{Endpoints: free})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	found := 0
	for chunk, err := range c.Query(t.Context(), client.Query{Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}) {
		if err != nil {
			t.Fatal(err)
		}
		for i, ms := range chunk.TimesMs {
			found++
			name := sampleName(client.MustSeries(chunk.Series.Metric(), chunk.Series.Tags()...), ms)
			if v, ok := want[name]; !ok || v != chunk.Values[i] {
				t.Errorf("%s is %v, want %v (%t)", name, chunk.Values[i], v, ok)
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d samples, want %d", found, len(want))
	}
}

func sampleName(s *client.Series, ms int64) string {
	return fmt.Sprint(s.Metric(), s.Tags(), ms)
}
