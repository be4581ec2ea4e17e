package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// namespace is where the cluster under test is; its name is demo.
const namespace = "metrics"

// installOperator installs the definitions, the operator and what it needs.
func installOperator(ctx context.Context, r *lab.Rack) error {
	chart := filepath.Join(r.Folders.Checkout, "charts", "tickmesh")
	for _, args := range [][]string{
		{"apply", "--server-side", "--filename=" + filepath.Join(chart, "crds")},
		{"apply", "--filename=" + filepath.Join(chart, "files", "role.yaml"), "--filename=" + filepath.Join("testdata", "operator.yaml")},
		{"--namespace=tickmesh-system", "rollout", "status", "deployment/tickmesh-operator", "--timeout=3m"},
	} {
		if _, err := r.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until the cluster is as its resource asks for, with so many nodes.
func settled(ctx context.Context, r *lab.Rack, nodes int) error {
	want := fmt.Sprintf("%d %d Available=True Progressing=False Degraded=False Rebalancing=False", nodes, nodes)
	return r.WaitOutput(ctx, want, "--namespace="+namespace, "get", "tmc/demo",
		`--output=jsonpath={.status.nodes} {.status.readyNodes}{range .status.conditions[*]} {.type}={.status}{end}`)
}

// etcdLeader finds the machine of the etcd member that leads, by the members' metrics.
func etcdLeader(ctx context.Context, r *lab.Rack, c *http.Client) (machine string, err error) {
	err = lab.Wait(ctx, func() (bool, error) {
		for i := range 3 {
			url := fmt.Sprintf("http://demo-etcd-%d.demo-etcd.%s.svc.cluster.local:2381/metrics", i, namespace)
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return true, err
			}
			response, err := c.Do(request)
			if err != nil {
				return false, err
			}
			text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
			if err := errors.Join(err, response.Body.Close()); err != nil {
				return false, err
			}
			if !strings.Contains(string(text), "\netcd_server_is_leader 1\n") {
				continue
			}
			machine, err = r.Kubectl(ctx, "--namespace="+namespace, "get", fmt.Sprintf("pod/demo-etcd-%d", i), "--output=jsonpath={.spec.nodeName}")
			return err == nil, err
		}
		return false, errors.New("no member of etcd leads")
	})
	return machine, err
}

// A cluster lives through what happens to boards, under writes of which none that was
// acknowledged may be lost.
func TestCluster(t *testing.T) {
	r := needLab(t)
	phase(t, "images loaded", func(ctx context.Context) error {
		return errors.Join(
			r.LoadImage(ctx, filepath.Join(productImages(r.Folders), "tickmesh.tar")),
			r.LoadImage(ctx, filepath.Join(productImages(r.Folders), "tickmesh-operator.tar")),
		)
	})
	phase(t, "operator installed", func(ctx context.Context) error { return installOperator(ctx, r) })
	t.Cleanup(func() { removeCluster(t, r) })
	phase(t, "cluster of 3 Available", func(ctx context.Context) error {
		text, err := os.ReadFile(filepath.Join("testdata", "cluster.yaml"))
		if err != nil {
			return err
		}
		if err := r.Apply(ctx, string(text)); err != nil {
			return err
		}
		return settled(ctx, r, 3)
	})
	j := startJournal(t, client(r), "http://demo."+namespace+".svc.cluster.local:6182")
	phase(t, "100 samples through Envoy", func(ctx context.Context) error { return j.grows(ctx, 100) })
	phase(t, "a node's pod deleted and back", func(ctx context.Context) error {
		if _, err := r.Kubectl(ctx, "--namespace="+namespace, "delete", "pod/demo-node-1"); err != nil {
			return err
		}
		return errors.Join(
			r.WaitOutput(ctx, "True", "--namespace="+namespace, "get", "pod/demo-node-1", `--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`),
			settled(ctx, r, 3), j.grows(ctx, 20),
		)
	})
	testPowerLoss(t, r, j)
	testScale(t, r, j)
	phase(t, "every acknowledged sample read", j.check)
}

func testPowerLoss(t *testing.T, r *lab.Rack, j *journal) {
	var machine string
	phase(t, "the machine of etcd's leader loses power", func(ctx context.Context) (err error) {
		if machine, err = etcdLeader(ctx, r, client(r)); err != nil {
			return err
		}
		if err := r.PowerOff(ctx, machine); err != nil {
			return err
		}
		return r.WaitNodes(ctx, 2)
	})
	phase(t, "writes go on without it", func(ctx context.Context) error { return j.grows(ctx, 100) })
	phase(t, "power on: all copies whole again", func(ctx context.Context) error {
		if err := r.PowerOn(ctx, machine); err != nil {
			return err
		}
		return errors.Join(r.WaitNodes(ctx, 3), settled(ctx, r, 3))
	})
}

func testScale(t *testing.T, r *lab.Rack, j *journal) {
	scale := func(ctx context.Context, nodes int) error {
		if _, err := r.Kubectl(ctx, "--namespace="+namespace, "scale", "tmc/demo", fmt.Sprintf("--replicas=%d", nodes)); err != nil {
			return err
		}
		return errors.Join(settled(ctx, r, nodes), j.grows(ctx, 20))
	}
	phase(t, "two new machines join", func(ctx context.Context) error {
		return errors.Join(r.PowerOn(ctx, "node4"), r.PowerOn(ctx, "node5"), r.WaitNodes(ctx, 5))
	})
	phase(t, "scaled from 3 to 5", func(ctx context.Context) error { return scale(ctx, 5) })
	phase(t, "scaled from 5 to 3", func(ctx context.Context) error { return scale(ctx, 3) })
}

// removeCluster removes what TestCluster has made, and the machines that it has added.
func removeCluster(t *testing.T, r *lab.Rack) {
	if t.Failed() {
		logState(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), conditionTime)
	defer cancel()
	remove := func(args ...string) {
		if _, err := r.Kubectl(ctx, append(args, "--ignore-not-found")...); err != nil {
			t.Error(err)
		}
	}
	remove("--namespace="+namespace, "delete", "tmc/demo")
	remove("delete", "namespace/"+namespace, "namespace/tickmesh-system")
	for _, name := range []string{"node4", "node5"} {
		if err := r.PowerOff(ctx, name); err != nil {
			t.Log(err) // the test ended before it was added
		}
		remove("delete", "node/"+name)
	}
}
