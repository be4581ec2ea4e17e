package access

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tickmesh/tickmesh/api/audit"
)

// AuditHTTP is the protocol of requests over HTTP in events of the audit log.
const AuditHTTP = "http"

// EndHTTP completes the event of a request over HTTP that ends now, by the status of its answer.
func EndHTTP(e *audit.Event, status int) {
	e.Status, e.DurationMs = strconv.Itoa(status), float64(time.Since(e.Time))/float64(time.Millisecond)
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Outcome = audit.Refused
	case status >= http.StatusBadRequest:
		e.Outcome = audit.Failed
	default:
		e.Outcome = audit.OK
	}
}

// IsProbe reports whether a request is one that everybody may make to an ordinary HTTP port: it only
// asks how the server is. The target counts as it was sent, so that nothing else can be reached
// under the name.
func IsProbe(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return r.URL.EscapedPath() == r.URL.Path && IsProbePath(r.URL.Path)
}

// IsProbePath reports whether a path asks whether a process runs, or whether it serves. Each question has two paths, of which
// the second is Prometheus'.
func IsProbePath(path string) bool {
	switch path {
	case "/healthz", "/-/healthy", "/readyz", "/-/ready":
		return true
	}
	return false
}
