package cluster

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/shardmap"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// lostNodes tracks since when nodes are dead according to the placement store, as long as
// this process has watched it, and logs it. It may be used by many goroutines.
type lostNodes struct {
	logger       *slog.Logger
	replaceAfter time.Duration
	start        time.Time // times are counted on from it, by the monotonic clock

	mu struct {
		sync.Mutex
		tracker shardmap.Tracker
		nodes   map[string]shardmap.NodeState
	}
}

func newLostNodes(logger *slog.Logger, replaceAfter time.Duration) *lostNodes {
	return &lostNodes{logger: logger, replaceAfter: replaceAfter, start: time.Now()}
}

func (l *lostNodes) nowMs() int64 { return l.start.UnixMilli() + time.Since(l.start).Milliseconds() }

// see takes what the store says. What it says while it cannot be relied on changes nothing.
// Nodes that were dead when this process began are not logged: status tells of them.
func (l *lostNodes) see(view shardmap.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, now := l.mu.nodes, l.nowMs()
	l.mu.nodes = l.mu.tracker.Observe(view, now).Nodes
	for id, is := range l.mu.nodes {
		was, known := before[id]
		switch {
		case !known || view.Desired[id] == shardmap.Gone:
		case was.DeadSinceMs == 0 && is.DeadSinceMs != 0:
			l.logger.Warn("a node is dead or was stopped: its lease in the placement store has ended", "node", id, "replaced_after", l.replaceAfter.String())
		case was.DeadSinceMs != 0 && is.DeadSinceMs == 0:
			l.logger.Info("a node is alive", "node", id, "dead_ms", now-was.DeadSinceMs)
		}
	}
}

// deadMs returns for how long a node is dead, at least 1; 0: it is alive, or not known.
func (l *lostNodes) deadMs(node string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since := l.mu.nodes[node].DeadSinceMs; since != 0 {
		return uint64(max(l.nowMs()-since, 1))
	}
	return 0
}

// lostProblems returns which nodes that have replicas are dead, and which do not answer though
// the store says that they are alive: for the first seconds after a node was lost, or for as
// long as the way to it is cut.
func lostProblems(nodes []*tickmeshv1.NodeStatus, reports map[string]*nodev1.ReportResponse, replaceAfterMs int64) (problems []string) {
	for _, n := range nodes {
		replicas := n.GetFullReplicas() + n.GetWitnesses() + n.GetLearners()
		switch {
		case n.GetDesired() == tickmeshv1.DesiredState_DESIRED_STATE_GONE || replicas == 0:
		case n.GetAlive() && reports[n.GetNode()] == nil:
			problems = append(problems, fmt.Sprintf("node %s does not answer", n.GetNode()))
		case !n.GetAlive() && n.GetFullReplicas()+n.GetLearners() == 0:
			problems = append(problems, fmt.Sprintf("node %s is dead; its copies are on other nodes, and the witnesses that it had (%d) are missing", n.GetNode(), n.GetWitnesses()))
		case !n.GetAlive():
			problems = append(problems, fmt.Sprintf("node %s is dead; when it has been so for %s, its copies are rebuilt on other nodes",
				n.GetNode(), display.Time(uint64(replaceAfterMs))))
		}
	}
	return problems
}
