package reconcile

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// TestNamesWithoutASet: a set of nodes that somebody deleted by hand does not turn away the
// certificates that its nodes have.
func TestNamesWithoutASet(t *testing.T) {
	for _, test := range []struct {
		shards  int32
		unnamed []string
		want    bool
	}{
		{0, []string{"secret a"}, false}, // a new cluster demands names
		{128, []string{"secret a"}, true},
		{128, nil, false},
	} {
		n := &peerNames{cluster: &v1alpha1.TickMeshCluster{}, unnamed: test.unnamed, known: true}
		n.cluster.Spec.TLS.Mode = v1alpha1.TLSModeSecrets
		n.cluster.Status.Shards = test.shards
		if got := n.optional(); got != test.want {
			t.Errorf("%d shards, %v: %t", test.shards, test.unnamed, got)
		}
	}
}
