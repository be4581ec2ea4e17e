package cluster

import (
	"time"

	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// refusalKept is for how long a node that takes writes again is given no leads: a disk that is nearly full has room for moments, and
// the shards would go to and fro.
const refusalKept = 30 * time.Second

// refusers are when nodes said last that they take no writes. One goroutine uses them.
type refusers map[string]time.Time

// note takes what nodes report.
func (r refusers) note(reports map[string]*nodev1.ReportResponse, now time.Time) {
	for id, report := range reports {
		if report.GetRefusal() != "" {
			r[id] = now
		}
	}
	for id, last := range r {
		if now.Sub(last) >= refusalKept {
			delete(r, id)
		}
	}
}

// has reports whether a node takes no writes, or did not lately.
func (r refusers) has(node string) bool {
	_, is := r[node]
	return is
}
