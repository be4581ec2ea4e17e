package cluster

import (
	"testing"

	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// TestLeaders: of nodes that say that they lead, the latest era counts first, then the term.
func TestLeaders(t *testing.T) {
	says := func(era uint32, term uint64) *nodev1.ReportResponse {
		return &nodev1.ReportResponse{Groups: []*nodev1.GroupReport{{Shard: 3, Leads: true, Era: era, Term: term}}}
	}
	for want, reports := range map[string]map[string]*nodev1.ReportResponse{
		"a": {"a": says(2, 1), "b": says(1, 9), "c": {Groups: []*nodev1.GroupReport{{Shard: 3, Era: 2, Term: 7}}}},
		"b": {"a": says(1, 9), "b": says(2, 1)},
		"c": {"a": says(1, 2), "b": says(1, 3), "c": says(1, 4)},
	} {
		if led := leaders(reports); len(led) != 1 || led[3].GetLeader() != want {
			t.Errorf("%v, want %s", led, want)
		}
	}
}
