package plugin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func (w *world) annotations() map[string]string {
	w.t.Helper()
	c := &v1alpha1.TickMeshCluster{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "db", Name: "demo"}, c); err != nil {
		w.t.Fatal(err)
	}
	return c.Annotations
}

// A restart is asked for by annotations, of all components or of those that are named, another one
// each time; nothing else of the cluster changes.
func TestRestart(t *testing.T) {
	c := demo(3)
	c.Spec.Etcd.Managed = &v1alpha1.ManagedEtcd{}
	w := newWorld(t, c)
	w.wants("restart demo --component router,node", "demo is restarted", "node: one at a time, as demo-node-2, demo-node-1, demo-node-0\n  router: new pods")
	first := w.annotations()
	if len(first) != 2 || first["tickmesh.dev/restart-node"] == "" || first["tickmesh.dev/restart-node"] != first["tickmesh.dev/restart-router"] {
		t.Errorf("annotations %v", first)
	}
	if _, err := time.Parse(time.RFC3339Nano, first["tickmesh.dev/restart-node"]); err != nil {
		t.Error(err)
	}
	var r restartReport
	if err := json.Unmarshal([]byte(w.wants("restart -o json")), &r); err != nil || r.Word == first["tickmesh.dev/restart-node"] {
		t.Errorf("%+v, %v", r, err)
	}
	var components []string
	for _, s := range r.Steps {
		components = append(components, s.Component)
	}
	all := w.annotations()
	if !slices.Equal(components, []string{"etcd", "node", "router", "envoy"}) || len(all) != 4 || all["tickmesh.dev/restart-envoy"] != r.Word {
		t.Errorf("%v, annotations %v", components, all)
	}
	w.wants("pause")
	w.wants("restart --component etcd", "is paused. When it is resumed", "etcd: one at a time\n")
	w.refuses("restart --component backup", "etcd, node, router, envoy")
	w.refuses("restart other", "not found")
}

// A shell completes clusters, nodes and components, and knows what has been typed already.
func TestCompletion(t *testing.T) {
	other := demo(0)
	other.Name = "other"
	w := newWorld(t, demo(2), other)
	for _, test := range []struct {
		line string
		want []string
	}{
		{"status", []string{"demo", "other"}},
		{"restart", []string{"demo", "other"}},
		{"restart demo", nil},
		{"drain", []string{"demo-node-0", "demo-node-1"}},
		{"undrain demo-node-0", []string{"demo-node-1"}},
		{"restart --component", []string{"etcd", "node", "router", "envoy"}},
		{"logs --component", []string{"etcd", "node", "router", "envoy"}},
		{"plan --drain", []string{"demo-node-0", "demo-node-1"}},
		{"status --output", []string{"table", "json"}},
	} {
		if got := w.completions(append(strings.Fields(test.line), "")...); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.line, got, test.want)
		}
	}
	if got := w.completions("restart", "--component", "node,"); !slices.Equal(got, []string{"node,etcd", "node,router", "node,envoy"}) {
		t.Errorf("after a comma: %v", got)
	}
}

// completions returns what the command line offers after its words.
func (w *world) completions(words ...string) (offered []string) {
	w.t.Helper()
	out, err := w.runWords(w.t.Context(), append([]string{"__complete", "-n", "db"}, words...))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, ":") {
			break
		}
		offered = append(offered, line)
	}
	return offered
}
