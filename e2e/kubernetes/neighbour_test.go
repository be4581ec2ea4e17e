package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// neighbour is a small cluster beside the first one.
func neighbour(name, spec string) string {
	return fmt.Sprintf(`
apiVersion: tickmesh.dev/v1alpha1
kind: TickMeshCluster
metadata: {name: %s}
spec:
  nodes: {count: 1, resources: {requests: {cpu: 50m, memory: 128Mi}, limits: {memory: 512Mi}}}
  replication: 1
  shards: 16
%s`, name, spec)
}

// applyIn makes what a manifest has in a namespace.
func (s *stage) applyIn(ctx context.Context, namespace, manifest string) error {
	cmd := s.rack.Command(ctx, "kubectl", "--namespace="+namespace, "apply", "--filename=-")
	cmd.Stdin = strings.NewReader(manifest)
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl apply: %w: %s", err, output)
	}
	return err
}

// available waits until a cluster serves.
func (s *stage) available(ctx context.Context, namespace, name string) error {
	return s.rack.WaitOutput(ctx, "True", "--namespace="+namespace, "get", "tmc/"+name, `--output=jsonpath={.status.conditions[?(@.type=="Available")].status}`)
}

// neighbours makes another cluster in the namespace of the first, and one of the first's name in another namespace, which is
// then deleted with all that is in it, and made again.
func (s *stage) neighbours() {
	const others = "others"
	direct := "  routers: {count: 1}\n  envoy: {enabled: false}\n"
	sample := func(ctx context.Context, namespace, name string) error {
		door := fmt.Sprintf("http://%s.%s.svc.cluster.local:%d", name, namespace, portHTTP)
		c := client(s.rack)
		if err := post(ctx, c, door+"/write?precision=s", "neighbour value=7 1700000042\n"); err != nil {
			return err
		}
		return get(ctx, c, door+"/api/query?start=1700000000&end=1700000100&m=sum:neighbour", `"1700000042":7`)
	}
	s.phase("a second cluster in the namespace", func(ctx context.Context) error {
		if err := s.applyIn(ctx, namespace, neighbour("other", direct)); err != nil {
			return err
		}
		return errors.Join(s.available(ctx, namespace, "other"), sample(ctx, namespace, "other"), s.settled(ctx, 3))
	})
	s.phase("a third one, whose names the first has: it is told", func(ctx context.Context) error {
		if err := s.applyIn(ctx, namespace, neighbour("demo-node", direct)); err != nil {
			return err
		}
		return errors.Join(s.rack.WaitOutput(ctx, "NameTaken", "--namespace="+namespace, "get", "tmc/demo-node",
			`--output=jsonpath={.status.conditions[?(@.type=="Degraded")].reason}`), s.settled(ctx, 3))
	})
	s.phase("both are deleted, and the first one is as it was", func(ctx context.Context) error {
		for _, name := range []string{"other", "demo-node"} {
			if err := s.deleteNeighbour(ctx, name); err != nil {
				return err
			}
		}
		return s.settled(ctx, 3)
	})
	for _, again := range []string{"", " again"} {
		s.phase("a namespace with a cluster of the same name"+again, func(ctx context.Context) error {
			if _, err := s.rack.Kubectl(ctx, "create", "namespace", others); err != nil {
				return err
			}
			if err := s.applyIn(ctx, others, neighbour("demo", direct)); err != nil {
				return err
			}
			return errors.Join(s.available(ctx, others, "demo"), sample(ctx, others, "demo"))
		})
		s.phase("the namespace is deleted: all of it goes", func(ctx context.Context) error {
			if _, err := s.rack.Kubectl(ctx, "delete", "namespace/"+others, "--wait=false"); err != nil {
				return err
			}
			err := lab.Wait(ctx, func() (bool, error) {
				left, err := s.rack.Kubectl(ctx, "get", "namespace/"+others, "--ignore-not-found", `--output=jsonpath={.metadata.name} {.status.conditions[?(@.status=="True")].message}`)
				if err == nil && left != "" {
					err = fmt.Errorf("the namespace is still there: %s", left)
				}
				return err == nil, err
			})
			return errors.Join(err, s.settled(ctx, 3))
		})
	}
}

// deleteNeighbour deletes a cluster with its volumes.
func (s *stage) deleteNeighbour(ctx context.Context, name string) error {
	if _, err := s.kubectl(ctx, "delete", "tmc/"+name); err != nil {
		return err
	}
	_, err := s.kubectl(ctx, "delete", "pvc", "--selector=tickmesh.dev/cluster="+name)
	return err
}
