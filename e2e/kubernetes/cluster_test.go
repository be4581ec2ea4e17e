package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

const (
	// namespace is where the release and its cluster are; the cluster's name is demo.
	namespace = "metrics"
	release   = "tickmesh"
)

// A cluster that a person has installed lives through what happens to boards, under
// writes of which none that was acknowledged may be lost.
func TestCluster(t *testing.T) {
	s := &stage{T: t, rack: needLab(t)}
	t.Cleanup(s.printTable)
	s.phase("images loaded", func(ctx context.Context) error {
		return errors.Join(
			s.rack.LoadImage(ctx, filepath.Join(productImages(s.rack.Folders), "tickmesh.tar")),
			s.rack.LoadImage(ctx, filepath.Join(productImages(s.rack.Folders), "tickmesh-operator.tar")),
		)
	})
	t.Cleanup(s.remove)
	s.install()
	s.try()
	s.startLoad()
	s.podLoss()
	s.powerLoss()
	s.boardLoss()
	s.volumeLoss()
	s.scaling()
	s.cutOff()
	s.upgrade()
	s.certificates()
	s.backup()
}

// install is what README says to type.
func (s *stage) install() {
	s.phase("helm install, Available", func(ctx context.Context) error {
		if err := s.helm(ctx, "install", release, s.chart(), "--create-namespace", "--values="+filepath.Join("testdata", "values.yaml")); err != nil {
			return err
		}
		_, err := s.kubectl(ctx, "wait", "tmc/demo", "--for=condition=Available", "--timeout=5m")
		return err
	})
	s.phase("all 3 nodes, nothing moves", func(ctx context.Context) error { return s.settled(ctx, 3) })
}

// try is what the chart says to type next. It leaves a sample in a database of its own.
func (s *stage) try() {
	s.phase("helm test", func(ctx context.Context) error { return s.helm(ctx, "test", release) })
}

// startLoad lets clients write from now on.
func (s *stage) startLoad() {
	s.phase("clients write by HTTP, put, lines and gRPC", func(ctx context.Context) (err error) {
		s.load, err = startLoad(ctx, s.rack)
		s.writing = err == nil
		return err
	})
	s.Cleanup(func() {
		if err := s.load.stop(); err != nil {
			s.Error(err)
		}
	})
}

func (s *stage) podLoss() {
	s.phase("a node's pod is deleted and comes back", func(ctx context.Context) error {
		if _, err := s.kubectl(ctx, "delete", "pod/demo-node-1"); err != nil {
			return err
		}
		return errors.Join(s.podReady(ctx, "demo-node-1"), s.settled(ctx, 3))
	})
}

// remove removes what the test has made, and the machines that it has added.
func (s *stage) remove() {
	if s.Failed() {
		s.logCluster()
	}
	ctx, cancel := context.WithTimeout(context.Background(), conditionTime)
	defer cancel()
	if err := s.forgetBackups(ctx); err != nil {
		s.Error(err)
	}
	if err := s.helm(ctx, "uninstall", release, "--ignore-not-found", "--wait"); err != nil {
		s.Error(err)
	}
	if _, err := s.rack.Kubectl(ctx, "delete", "namespace/"+namespace, "--ignore-not-found"); err != nil {
		s.Error(err)
	}
	machines, err := s.rack.Machines(ctx)
	if err != nil {
		s.Error(err)
	}
	for i, m := range machines {
		switch {
		case i < firstMachines && !m.On:
			err = s.rack.PowerOn(ctx, m.Name)
		case i >= firstMachines && m.On:
			if err = s.rack.PowerOff(ctx, m.Name); err == nil {
				_, err = s.rack.Kubectl(ctx, "delete", "node/"+m.Name, "--ignore-not-found")
			}
		default:
			continue
		}
		if err != nil {
			s.Error(err)
		}
	}
	if err := s.rack.WaitNodes(ctx, firstMachines); err != nil {
		s.Error(err)
	}
}

// firstMachines is how many machines the lab starts with.
const firstMachines = 3

// logCluster tells what the operator thinks.
func (s *stage) logCluster() {
	for _, args := range [][]string{
		{"get", "tmc/demo", "--output=yaml"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "--selector=app.kubernetes.io/name=tickmesh-operator", "--tail=60", "--prefix"},
	} {
		output, err := s.kubectl(context.Background(), args...)
		s.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

func (s *stage) chart() string { return filepath.Join(s.rack.Folders.Checkout, "charts", "tickmesh") }

func (s *stage) kubectl(ctx context.Context, args ...string) (string, error) {
	return s.rack.Kubectl(ctx, append([]string{"--namespace=" + namespace}, args...)...)
}

func (s *stage) helm(ctx context.Context, args ...string) error {
	output, err := s.rack.Command(ctx, "helm", append([]string{"--namespace=" + namespace}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}

// settled waits until the cluster is as its resource asks for, with so many nodes.
func (s *stage) settled(ctx context.Context, nodes int) error {
	want := fmt.Sprintf("%d %d Available=True Progressing=False Degraded=False Rebalancing=False current", nodes, nodes)
	return lab.Wait(ctx, func() (bool, error) {
		text, err := s.kubectl(ctx, "get", "tmc/demo", `--output=jsonpath={.status.nodes} {.status.readyNodes}`+
			`{range .status.conditions[*]} {.type}={.status}{end} {.metadata.generation} {.status.observedGeneration}`)
		if err != nil {
			return false, err
		}
		fields := strings.Fields(text)
		if n := len(fields); n >= 2 && fields[n-2] == fields[n-1] {
			text = strings.Join(append(fields[:n-2:n-2], "current"), " ")
		}
		if text != want {
			return false, fmt.Errorf("the cluster is %q, not %q", text, want)
		}
		return true, nil
	})
}

// condition waits until a condition has a status.
func (s *stage) condition(ctx context.Context, kind, status string) error {
	return s.rack.WaitOutput(ctx, status, "--namespace="+namespace, "get", "tmc/demo",
		fmt.Sprintf(`--output=jsonpath={.status.conditions[?(@.type==%q)].status}`, kind))
}

func (s *stage) podReady(ctx context.Context, pod string) error {
	return s.rack.WaitOutput(ctx, "True", "--namespace="+namespace, "get", "pod/"+pod,
		`--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
}

// machineOf gives the machine of a pod.
func (s *stage) machineOf(ctx context.Context, pod string) (string, error) {
	return s.kubectl(ctx, "get", "pod/"+pod, "--output=jsonpath={.spec.nodeName}")
}

// nodeOn gives the node of the cluster that is on a machine.
func (s *stage) nodeOn(ctx context.Context, machine string) (string, error) {
	pod, err := s.kubectl(ctx, "get", "pods", "--selector=app.kubernetes.io/component=node", "--field-selector=spec.nodeName="+machine, "--output=jsonpath={.items[*].metadata.name}")
	if err == nil && (pod == "" || strings.Contains(pod, " ")) {
		err = fmt.Errorf("nodes on %s: %q", machine, pod)
	}
	return pod, err
}

// etcdLeader finds the machine of the etcd member that leads, by the members' metrics.
func (s *stage) etcdLeader(ctx context.Context) (machine string, err error) {
	c := client(s.rack)
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
			machine, err = s.machineOf(ctx, fmt.Sprintf("demo-etcd-%d", i))
			return err == nil, err
		}
		return false, errors.New("no member of etcd leads")
	})
	return machine, err
}
