package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

const (
	// namespace is where the release and its cluster are; the cluster's name is demo.
	namespace = "metrics"
	release   = "tickmesh"
)

// scene is a part of TestCluster. Scenes follow each other on one cluster; each leaves it
// whole.
type scene struct {
	name    string
	play    func(*stage)
	recipes []string // of OPERATING.md, that it types
	long    bool     // left out with -short
}

func scenes() []scene {
	return []scene{
		{"install", (*stage).installFirst, []string{"install", "try", "look"}, false},
		{"clients", (*stage).startLoad, nil, false},
		{"pod loss", (*stage).podLoss, nil, false},
		{"power loss", (*stage).powerLoss, nil, true},
		{"board loss", (*stage).boardLoss, []string{"replace-board"}, false},
		{"volume loss", (*stage).volumeLoss, nil, true},
		{"scale out", (*stage).scaleOut, []string{"scale-out"}, false},
		{"drain", (*stage).drain, []string{"drain", "undrain"}, true},
		{"scale in", (*stage).scaleIn, []string{"scale-in"}, false},
		{"groups", (*stage).groups, []string{"add-group", "remove-group"}, true},
		{"growth that is refused", (*stage).growRefused, nil, true},
		{"volumes of another class", (*stage).moveVolumes, []string{"move-volumes"}, true},
		{"API server loss", (*stage).planeLoss, nil, true},
		{"loss of etcd's majority", (*stage).quorumLoss, nil, true},
		{"loss of an Envoy", (*stage).frontLoss, nil, true},
		{"neighbours", (*stage).neighbours, nil, true},
		{"full volume", (*stage).fullVolume, nil, true},
		{"TLS at the edge", (*stage).edge, nil, true},
		{"users", (*stage).users, nil, true},
		{"external etcd and issued certificates", (*stage).issued, nil, true},
		{"operator loss", (*stage).operatorLoss, nil, true},
		{"two under one name", (*stage).cutOff, nil, true},
		{"upgrade", (*stage).upgrade, []string{"upgrade"}, false},
		{"certificates", (*stage).certificates, []string{"rotate-certificates"}, true},
		{"outside", (*stage).outside, []string{"load-balancer"}, true},
		{"backup", (*stage).backup, []string{"backup-volume", "back-up", "back-up-to-s3", "back-up-incremental"}, true},
		{"everything lost", (*stage).everythingLost, []string{"delete", "delete-volumes", "install", "restore", "restore-by-place", "try"}, true},
		{"sleep", (*stage).sleep, []string{"maintenance-windows", "maintain", "hibernate", "wake", "look"}, true},
	}
}

// A cluster that a person has installed lives through what happens to boards, under
// writes of which none that was acknowledged may be lost.
func TestCluster(t *testing.T) {
	s := newStage(t)
	t.Cleanup(s.printTable)
	s.phase("images copied to all machines", s.loadImages(productImages(s.rack.Folders)))
	t.Cleanup(s.remove)
	only := strings.FieldsFunc(os.Getenv("TICKMESH_E2E_SCENES"), func(r rune) bool { return r == ',' })
	for _, scene := range scenes() {
		if scene.long && testing.Short() || len(only) > 0 && !slices.Contains(only, scene.name) {
			continue
		}
		clear(s.typed)
		scene.play(s)
		if typed := slices.Sorted(maps.Keys(s.typed)); !slices.Equal(typed, slices.Sorted(slices.Values(scene.recipes))) {
			t.Fatalf("scene %s typed the recipes %q, not %q", scene.name, typed, scene.recipes)
		}
	}
}

// loadImages copies the product's images to all machines.
func (s *stage) loadImages(folder string) func(context.Context) error {
	return func(ctx context.Context) error {
		return errors.Join(
			s.rack.LoadImage(ctx, filepath.Join(folder, "tickmesh.tar")),
			s.rack.LoadImage(ctx, filepath.Join(folder, "tickmesh-operator.tar")),
		)
	}
}

// installFirst is what README says to type, and what the chart says to type next.
func (s *stage) installFirst() {
	begin := time.Now()
	s.phase("recipe install: Available", s.typeInstall)
	s.try()
	if took := time.Since(begin); took > s.bounds.firstQuery {
		s.Errorf("the first query was answered %.1f s after the installation began, and may be %s at most", took.Seconds(), s.bounds.firstQuery)
	}
	s.phase("all 3 nodes, nothing moves", func(ctx context.Context) error { return s.settled(ctx, 3) })
	s.phase("recipe look", func(ctx context.Context) error { return s.recipe(ctx, "look") })
}

func (s *stage) typeInstall(ctx context.Context) error { return s.recipe(ctx, "install") }

func (s *stage) install() {
	s.phase("recipe install: Available", s.typeInstall)
	s.phase("all 3 nodes, nothing moves", func(ctx context.Context) error { return s.settled(ctx, 3) })
}

// try leaves a sample in a database of its own.
func (s *stage) try() {
	s.phase("recipe try: a point goes in and out", func(ctx context.Context) error { return s.recipe(ctx, "try") })
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

// remove removes what the test has made, and the machines that it has added, for the
// tests after it. With -short nothing follows that would need it, and the lab ends.
func (s *stage) remove() {
	if s.Failed() {
		s.logCluster()
	}
	if testing.Short() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), conditionTime)
	defer cancel()
	if err := s.forgetBackups(ctx); err != nil {
		s.Error(err)
	}
	if _, err := s.kubectl(ctx, "delete", "tmc/demo", "--ignore-not-found"); err != nil {
		s.Error(err)
	}
	if _, err := s.output(ctx, "helm", "uninstall", release, "--ignore-not-found"); err != nil {
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

// machines starts new machines until so many are on, and waits for them.
func (s *stage) machines(ctx context.Context, count int) error {
	all, err := s.rack.Machines(ctx)
	if err != nil {
		return err
	}
	on := powered(all)
	for i, m := range all {
		if on >= count {
			break
		}
		// One of the first that is off was lost by a scene, for good.
		if m.On || i < firstMachines {
			continue
		}
		if err := s.rack.PowerOn(ctx, m.Name); err != nil {
			return err
		}
		on++
	}
	return s.rack.WaitNodes(ctx, count)
}

// powered returns how many machines are on.
func powered(machines []lab.Machine) (on int) {
	for _, m := range machines {
		if m.On {
			on++
		}
	}
	return on
}

// firstMachines is how many machines the lab starts with.
const firstMachines = 3

// logCluster reports what the operator thinks.
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

func (s *stage) kubectl(ctx context.Context, args ...string) (string, error) {
	return s.rack.Kubectl(ctx, append([]string{"--namespace=" + namespace}, args...)...)
}

// output runs a program of the lab for the namespace of the cluster.
func (s *stage) output(ctx context.Context, name string, args ...string) (string, error) {
	output, err := s.rack.Command(ctx, name, append([]string{"--namespace=" + namespace}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, output)
	}
	return string(output), err
}

// settled waits until the cluster is as its resource asks for, with so many nodes.
func (s *stage) settled(ctx context.Context, nodes int) error {
	want := fmt.Sprintf("%d %d Available=True Progressing=False Degraded=False Rebalancing=False NodesIdentified=True current", nodes, nodes)
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
		// Clusters of earlier commits have no condition Ready, or have it after the others; Hibernated
		// have those that were asked to.
		if text = strings.NewReplacer(" Ready=True", "", " Hibernated=False", "").Replace(text); text != want {
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

// machineOf returns the machine of a pod.
func (s *stage) machineOf(ctx context.Context, pod string) (string, error) {
	return s.kubectl(ctx, "get", "pod/"+pod, "--output=jsonpath={.spec.nodeName}")
}

// nodeOn returns the node of the cluster that is on a machine.
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
