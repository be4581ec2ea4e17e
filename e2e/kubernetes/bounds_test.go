package kubernetes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// What clients must not meet is found, and said with its figure.
func TestBounds(t *testing.T) {
	b := boundsOf(false)
	for want, l := range map[string]lap{
		"": {writePause: pause{2 * time.Second, "put"}, queryPause: pause{2 * time.Second, "http"}, failedInRow: 1, totals: totals{failed: 9}},
		"no write by grpc was answered for 2.001s": {writePause: pause{2001 * time.Millisecond, "grpc"}},
		"no query by http was answered for 3s":     {queryPause: pause{3 * time.Second, "http"}},
		"2 requests of one client":                 {failedInRow: 2},
	} {
		if err := b.check(&l, 0); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	for longest, want := range map[time.Duration]string{
		silentTime + 2*time.Second: "",
		silentTime + 3*time.Second: "no write by line was answered for 5.2s, and may be for 4.2s at most",
	} {
		err := b.check(&lap{writePause: pause{longest, "line"}}, silentTime)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s while a machine is lost: %v", longest, err)
		}
	}
}

// A pause is one of all clients of a protocol.
func TestGap(t *testing.T) {
	var g gap
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	g.mu.last = at(0)
	for _, second := range []int{1, 2, 5, 6} {
		g.answered(at(second))
	}
	if longest := g.lap(); longest != 3*time.Second {
		t.Error(longest)
	}
	g.answered(at(7))
	if longest := g.lap(); longest != time.Second {
		t.Error(longest)
	}
}

// A seed that is asked for is drawn from.
func TestSeed(t *testing.T) {
	if seed, err := seedOf("7"); seed != 7 || err != nil {
		t.Error(seed, err)
	}
	if _, err := seedOf("-1"); err == nil {
		t.Error("-1 is no seed")
	}
	if a, _ := seedOf(""); a == 0 {
		t.Error("no seed is drawn")
	}
}

// Logs of all pods are kept, also of machines that are off.
func TestKeepLogs(t *testing.T) {
	f := lab.Folders{Checkout: t.TempDir(), Run: t.TempDir()}
	for _, machine := range []string{"node1", "node2"} {
		dir := filepath.Join(f.Run, machine, "log", "pods", "metrics_demo-node-0_uid", "node")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "0.log"), []byte(machine), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := keepLogs(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, machine := range []string{"node1", "node2"} {
		text, err := os.ReadFile(filepath.Join(kept, machine, "log", "pods", "metrics_demo-node-0_uid", "node", "0.log"))
		if err != nil || string(text) != machine {
			t.Errorf("%s: %q, %v", machine, text, err)
		}
	}
}
