package process

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestListsOfARangeThroughAllLayers holds, on a process, that nothing between the handlers and the
// engine forgets the range that a list is asked for.
func TestListsOfARangeThroughAllLayers(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	now := time.Now().Unix()
	const daySeconds = 24 * 3600
	if code, body := s.as("", "POST", "/write?precision=s", fmt.Sprintf("req,pod=dead value=1 %d\nreq,pod=live value=2 %d", now-60*daySeconds, now)); code != http.StatusNoContent {
		t.Fatal(code, body)
	}
	for _, path := range []string{"/api/v1/series?match[]=req&", "/api/v1/label/pod/values?", "/api/v1/label/pod/values?match[]=req&"} {
		for from, want := range map[int64]string{now - 300: "live", now - 90*daySeconds: "dead live"} {
			code, body := s.as("", "GET", fmt.Sprintf("%sstart=%d&end=%d", path, from, now), "")
			if code != http.StatusOK {
				t.Fatal(code, body)
			}
			for _, pod := range []string{"dead", "live"} {
				if strings.Contains(body, pod) != strings.Contains(want, pod) {
					t.Errorf("%sstart=%d: %s, want %s", path, from, body, want)
				}
			}
		}
	}
}
