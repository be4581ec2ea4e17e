package command

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/settings"
)

// TestCertsAreRenewed renews what is old, with the hosts that it has.
func TestCertsAreRenewed(t *testing.T) {
	t.Parallel()
	s := &certsSettings{dir: filepath.Join(t.TempDir(), "certs"), cluster: "tickmesh", validity: settings.Duration(certsValidity)}
	now := time.Now()
	var out strings.Builder
	if err := s.run([]string{"node/n1=10.0.0.1", "node/n2"}, now, &out); err != nil {
		t.Fatal(err)
	}
	s.renew = true
	for _, test := range []struct {
		after time.Duration
		want  int
	}{{certsValidity / 2, 0}, {certsValidity * 3 / 4, 2}, {certsValidity, 0}} {
		out.Reset()
		if err := s.run(nil, now.Add(test.after), &out); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), " renewed\n"); got != test.want || !strings.Contains(out.String(), "10.0.0.1") {
			t.Errorf("after %v: %s", test.after, out.String())
		}
	}
}
