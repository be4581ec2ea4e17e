package build_test

import (
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

func TestNames(t *testing.T) {
	c := cluster(t, "")
	for got, want := range map[string]string{
		build.PodName(c, build.ComponentNode, 0):                           "demo-node-0",
		build.ClaimName("demo-node-0"):                                     "data-demo-node-0",
		build.PodAddress(c, build.ComponentNode, "demo-node-0"):            "demo-node-0.demo-node.ns.svc",
		build.EtcdURL(c, "demo-etcd-1", build.PortEtcdPeer):                "https://demo-etcd-1.demo-etcd.ns.svc:2380",
		build.AccessRouters(c).Address:                                     "demo-router.ns.svc:6183",
		build.TLSSecret(c, build.IdentityNode):                             "demo-node-tls",
		build.TLSSecret(c, build.IdentityEdge):                             "",
		build.TLSSecret(cluster(t, specs["full"]), build.IdentityEdge):     "demo-edge-tls",
		build.TLSSecret(cluster(t, specs["external"]), build.IdentityEtcd): "",
		build.StoreName(cluster(t, specs["external"])):                     "plant-7",
	} {
		if got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
}

// Who connects to the routers trusts them, whatever stands before them.
func TestAccessRouters(t *testing.T) {
	for spec, want := range map[string]build.RouterAccess{
		"":                       {Address: "demo-router.ns.svc:6183"},
		"  service: {tls: {}}\n": {Address: "demo-router.ns.svc:6183", CASecret: "demo-operator-tls"},
		"  service: {tls: {}}\n  envoy: {enabled: false}\n":                                    {Address: "demo.ns.svc:6183", CASecret: "demo-edge-tls"},
		"  service: {tls: {secretName: s}}\n  tls: {mode: 'Off'}\n":                            {Address: "demo-router.ns.svc:6183"},
		"  service: {tls: {secretName: s}}\n  tls: {mode: 'Off'}\n  envoy: {enabled: false}\n": {Address: "demo.ns.svc:6183", CASecret: "s"},
	} {
		if got := build.AccessRouters(cluster(t, spec)); got != want {
			t.Errorf("%s: %+v, expected %+v", spec, got, want)
		}
	}
}

func TestWALSync(t *testing.T) {
	for spec, want := range map[string]v1alpha1.WALSync{
		"": v1alpha1.WALSyncInterval, "  replication: 1\n": v1alpha1.WALSyncAlways, "  replication: 1\n  walSync: interval\n": v1alpha1.WALSyncInterval,
	} {
		if got := build.WALSync(cluster(t, spec)); got != want {
			t.Errorf("%s: %s, expected %s", spec, got, want)
		}
	}
}

func TestCertificatesToMake(t *testing.T) {
	for spec, want := range map[string][]string{
		"":                       {"router", "operator", "etcd"}, // nodes keep their keys
		"  tls: {mode: 'Off'}\n": nil,
		specs["full"]:            {"node", "router", "operator", "etcd", "edge"},
		specs["external"]:        nil,
	} {
		c := cluster(t, spec)
		if got := build.IdentitiesToMake(c); !slices.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", spec, got, want)
		}
		for _, identity := range want {
			names := build.DNSNames(c, identity)
			if len(names) == 0 || slices.Contains(names, "") || build.TLSSecret(c, identity) == "" {
				t.Errorf("%s: %s has names %q", spec, identity, names)
			}
		}
	}
}
