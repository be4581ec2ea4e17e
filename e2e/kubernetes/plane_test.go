package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// planeLossTime is how long the API server is gone.
const planeLossTime = 5 * time.Minute

// believedAgain is how long the Service may have no endpoints for new connections: the controllers of Kubernetes have not heard of any
// machine for long, take all for lost, and believe each again when its kubelet next reports, each ten seconds.
const believedAgain = 10 * time.Second

// planeLoss lets nobody reach the API server for minutes: clients do not notice.
func (s *stage) planeLoss() {
	s.phase(fmt.Sprintf("the API server is gone for %s", planeLossTime), func(ctx context.Context) error {
		if err := s.rack.CutAPI(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(planeLossTime):
		}
		// The way back is opened also when the test ends meanwhile.
		return errors.Join(ctx.Err(), s.rack.MendAPI(context.WithoutCancel(ctx)))
	})
	s.bounded("it is back: a pod that is deleted comes back", believedAgain, func(ctx context.Context) error {
		machines, err := s.rack.Machines(ctx)
		if err != nil {
			return err
		}
		if err := s.rack.WaitNodes(ctx, powered(machines)); err != nil {
			return err
		}
		if _, err := s.kubectl(ctx, "delete", "pod/demo-node-0"); err != nil {
			return err
		}
		return errors.Join(s.podReady(ctx, "demo-node-0"), s.settled(ctx, 3))
	})
}

// quorumLoss takes the volumes of two of etcd's three members: they are gone for good, and a new etcd is made
// of what the nodes know.
func (s *stage) quorumLoss() {
	var after, generation string
	etcdGeneration := func(ctx context.Context) (string, error) {
		return s.kubectl(ctx, "get", "tmc/demo", "--output=jsonpath={.status.etcd.generation}")
	}
	s.phase("etcd's majority is lost with its volumes: told", func(ctx context.Context) (err error) {
		if after, err = s.kubectl(ctx, "get", "tmc/demo", "--output=jsonpath={.spec.replaceAfter}"); err != nil {
			return err
		}
		if generation, err = etcdGeneration(ctx); err != nil {
			return err
		}
		if err := s.patch(ctx, "tmc/demo", `{"spec":{"replaceAfter":"30s"}}`); err != nil {
			return err
		}
		for _, member := range []string{"demo-etcd-0", "demo-etcd-1"} {
			if _, err := s.kubectl(ctx, "delete", "pvc/data-"+member, "--wait=false"); err != nil {
				return err
			}
		}
		if _, err := s.kubectl(ctx, "delete", "pod/demo-etcd-0", "pod/demo-etcd-1", "--wait=false", "--force", "--grace-period=0"); err != nil {
			return err
		}
		return s.condition(ctx, "Degraded", "True")
	})
	s.phase("a new etcd is made of what nodes know", func(ctx context.Context) error {
		if err := lab.Wait(ctx, func() (bool, error) {
			now, err := etcdGeneration(ctx)
			if err == nil && now == generation {
				err = fmt.Errorf("etcd is still that of generation %q", now)
			}
			return err == nil, err
		}); err != nil {
			return err
		}
		if err := s.settled(ctx, 3); err != nil {
			return err
		}
		if err := s.patch(ctx, "tmc/demo", fmt.Sprintf(`{"spec":{"replaceAfter":%q}}`, after)); err != nil {
			return err
		}
		return s.settled(ctx, 3)
	})
}

// frontLoss loses the machine of an Envoy while two operators are there, one of them elsewhere.
func (s *stage) frontLoss() {
	s.phase("two operators", func(ctx context.Context) error {
		if err := s.upgradeRelease(ctx, "--set=operator.replicas=2"); err != nil {
			return err
		}
		return errors.Join(s.rack.WaitOutput(ctx, "2", "--namespace="+namespace, "get", "deployments", "--selector=app.kubernetes.io/name=tickmesh-operator",
			"--output=jsonpath={.items[*].status.readyReplicas}"), s.settled(ctx, 3))
	})
	var machine string
	var machines int
	s.lossPhase("the machine of an Envoy loses its power", func(ctx context.Context) error {
		all, err := s.rack.Machines(ctx)
		if err != nil {
			return err
		}
		machines = powered(all)
		envoys, err := s.kubectl(ctx, "get", "pods", "--selector=tickmesh.dev/cluster=demo,app.kubernetes.io/component=envoy", "--output=jsonpath={.items[*].spec.nodeName}")
		if err != nil {
			return err
		}
		machine, _, _ = strings.Cut(envoys, " ")
		return errors.Join(s.rack.PowerOff(ctx, machine), s.rack.WaitNodes(ctx, machines-1))
	})
	s.phase("power on, one operator", func(ctx context.Context) error {
		if err := errors.Join(s.rack.PowerOn(ctx, machine), s.rack.WaitNodes(ctx, machines)); err != nil {
			return err
		}
		if err := s.upgradeRelease(ctx, "--set=operator.replicas=1"); err != nil {
			return err
		}
		return s.settled(ctx, 3)
	})
}

// upgradeRelease changes values of the release that is installed.
func (s *stage) upgradeRelease(ctx context.Context, values ...string) error {
	args := append([]string{"upgrade", release, s.release + "/charts/tickmesh", "--reset-then-reuse-values"}, values...)
	_, err := s.output(ctx, "helm", args...)
	return err
}
