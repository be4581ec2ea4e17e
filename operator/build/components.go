package build

import "github.com/tickmesh/tickmesh/api/v1alpha1"

func allComponents() []string {
	return []string{ComponentEtcd, ComponentNode, ComponentRouter, ComponentEnvoy, ComponentBackup}
}

// components returns those that a cluster has.
func components(c *v1alpha1.TickMeshCluster) (has []string) {
	for _, component := range allComponents() {
		if component == ComponentEtcd && c.Spec.Etcd.Managed == nil || component == ComponentEnvoy && !EnvoyEnabled(c) {
			continue
		}
		has = append(has, component)
	}
	return has
}
