package process

import (
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
)

// A check leaves its point where it says, and fails where it cannot write or finds
// something else.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	c := connect(t, s)
	for range 2 {
		code, stdout, stderr := run(t, nil, "check", "--addr", s.addr["grpc"])
		if code != 0 || !strings.HasPrefix(stdout, "a point was written and read back in ") || stderr != "" {
			t.Fatalf("%d %q %q", code, stdout, stderr)
		}
	}
	points := 0
	q := client.Query{Selector: scan.Selector{Database: "tickmesh_check", MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	for chunk, err := range c.Query(t.Context(), q) {
		if err != nil || chunk.Series.Metric() != "check" {
			t.Fatalf("%v, %v", chunk, err)
		}
		points += len(chunk.TimesMs)
	}
	if points != 2 {
		t.Errorf("%d points", points)
	}
	if code, _, stderr := run(t, nil, "check", "--addr", s.addr["grpc"], "--db", "db"); code != 0 {
		t.Errorf("%d %q", code, stderr)
	}
	if _, err := c.Delete(t.Context(), scan.Selector{Database: "db", MetricAny: true}, scan.TimeMsMin, scan.TimeMsMax); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := run(t, nil, "check", "--addr", "127.0.0.1:1", "--timeout", "1ms"); code != 1 || stdout != "" || stderr == "" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}
