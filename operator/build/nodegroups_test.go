package build_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// Groups add their StatefulSets, and change no byte of any other object.
func TestNodeGroupsChangeNothingElse(t *testing.T) {
	alone := cluster(t, strings.SplitAfter(specs["groups"], "amd64}}}\n")[0])
	grouped := cluster(t, specs["groups"])
	before, err := build.Objects(alone, facts(alone))
	if err != nil {
		t.Fatal(err)
	}
	after, err := build.Objects(grouped, facts(grouped))
	if err != nil {
		t.Fatal(err)
	}
	var others []build.Object
	for _, o := range after {
		if o.GetLabels()[build.LabelNodeGroup] == "" {
			others = append(others, o)
		}
	}
	if len(after) != len(others)+2 || !bytes.Equal(documents(t, before), documents(t, others)) {
		t.Errorf("%d objects, %d of groups; or others are changed by groups", len(after), len(after)-len(others))
	}
}

func TestNodeNames(t *testing.T) {
	c := cluster(t, specs["groups"])
	want := []string{"demo-node-0", "demo-node-1", "demo-node-2", "demo-node-arm-0", "demo-node-arm-1", "demo-node-rpi-4-0"}
	names := build.NodeNames(c)
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("%q", names)
	}
	for _, name := range names {
		group, ordinal, ok := build.NodeOf(c, name)
		if !ok || build.NodeName(c, group, ordinal) != name || build.PodOfClaim(build.ClaimName(name)) != name {
			t.Errorf("%s: %q %d %v", name, group, ordinal, ok)
		}
	}
	for _, name := range []string{"demo-node", "demo-node-", "demo-node-x", "demo-node-01", "demo-node--1", "demo-node-4-0", "demo-node-arm-00", "demo-node-b-node-0", "demo-node-etcd-0", "demo-etcd-0", "other-node-0", ""} {
		if group, ordinal, ok := build.NodeOf(c, name); ok {
			t.Errorf("%s is number %d of %q", name, ordinal, group)
		}
	}
}

// No StatefulSet of a cluster ever has the name of another one's, of any clusters and groups that the
// definition takes.
func TestNamesDoNotCollide(t *testing.T) {
	words := []string{"a", "b", "node", "etcd"}
	var phrases []string
	for _, first := range words {
		phrases = append(phrases, first)
		for _, second := range words {
			phrases = append(phrases, first+"-"+second)
			for _, third := range words {
				phrases = append(phrases, first+"-"+second+"-"+third)
			}
		}
	}
	var groups []string
	for _, group := range phrases {
		c := cluster(t, "")
		if _, _, ok := build.NodeOf(c, build.NodeName(c, group, 0)); ok { // as the definition does: see api/v1alpha1
			groups = append(groups, group)
		}
	}
	if len(groups) != 2+4+8 {
		t.Fatalf("groups %q", groups)
	}
	owners := map[string]string{}
	enter := func(name, owner string) {
		if other, taken := owners[name]; taken {
			t.Errorf("%s is the name of %s and of %s", name, other, owner)
		}
		owners[name] = owner
	}
	for _, name := range phrases {
		c := &v1alpha1.TickMeshCluster{}
		c.Name = name
		enter(build.Name(c, build.ComponentEtcd), name+" etcd")
		for _, group := range append([]string{""}, groups...) {
			enter(build.NodeSetName(c, group), name+" group "+group)
			for _, ordinal := range []int{0, 4} {
				of, number, ok := build.NodeOf(c, build.NodeName(c, group, ordinal))
				if !ok || of != group || number != ordinal {
					t.Errorf("%s: %q %d %v", build.NodeName(c, group, ordinal), of, number, ok)
				}
			}
		}
	}
}

// The longest names that the definition takes fit where Kubernetes puts them: the StatefulSet's name and
// ten letters into a label.
func TestLongestNames(t *testing.T) {
	c := &v1alpha1.TickMeshCluster{}
	c.Name = strings.Repeat("c", 40)
	if name := build.NodeSetName(c, "sixsix"); len(name)+len("-0123456789") > 63 {
		t.Errorf("%s has %d letters", name, len(name))
	}
	c.Name = strings.Repeat("c", 26)
	if name := build.NodeName(c, strings.Repeat("g", 20), 255); len(name) > 63 {
		t.Errorf("%s has %d letters", name, len(name))
	}
}
