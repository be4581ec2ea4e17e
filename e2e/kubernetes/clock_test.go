package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

const (
	clockCluster = "clocks"
	clockTag     = "clock" // of the image whose clock can be set
	clockFolder  = "/clock"
	clockFile    = "ahead"
	clockJump    = 40 * 24 * time.Hour // much longer than the cluster's retention
)

// clockImages is where the image is whose clock can be set.
func clockImages(f lab.Folders) string { return filepath.Join(productImages(f), clockTag) }

// buildClock builds it: the product's sources, and a standard library whose time.Now adds what a file says.
func buildClock(ctx context.Context, f lab.Folders) error {
	return buildProduct(ctx, f, clockImages(f), "-programs", "tickmesh", "-tag", clockTag, "-clock", clockFolder+"/"+clockFile)
}

// counted is samples of one time, each of its own series and of the value 1: their sum is how many there are.
type counted struct {
	door  string
	c     *http.Client
	time  int64
	count int
}

// add writes samples until a condition holds, which it looks at once a second. It returns the longest time in which none was taken.
func (n *counted) add(ctx context.Context, until func() (bool, error)) (longest time.Duration, err error) {
	last, looked := time.Now(), time.Time{}
	for {
		failed := postOnce(ctx, n.c, n.door+"/write?precision=s", fmt.Sprintf("counted,series=%d value=1 %d\n", n.count, n.time))
		longest = max(longest, time.Since(last))
		if failed == nil {
			n.count++
			last = time.Now()
		}
		if time.Since(looked) >= time.Second {
			looked = time.Now()
			done, err := until()
			if done || ctx.Err() != nil {
				return longest, errors.Join(ctx.Err(), err)
			}
			last = last.Add(time.Since(looked)) // nobody wrote meanwhile
		}
		select {
		case <-ctx.Done():
			return longest, errors.Join(ctx.Err(), failed)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// check reads them back.
func (n *counted) check(ctx context.Context) error {
	return get(ctx, n.c, fmt.Sprintf("%s/api/query?start=%d&end=%d&m=sum:counted", n.door, n.time-1, n.time+1), fmt.Sprintf(`"%d":%d}`, n.time, n.count))
}

// clocks sets the clock of one node of three ahead and back: it drops nothing by it, says so, and all go on.
func (s *stage) clocks() {
	n := &counted{door: fmt.Sprintf("http://%s.%s.svc.cluster.local:%d", clockCluster, namespace, portHTTP), c: client(s.rack), time: time.Now().Unix()}
	node := clockCluster + "-node-0"
	s.phase("a cluster whose clocks can be set, retention a day", func(ctx context.Context) error {
		if err := s.rack.LoadImage(ctx, filepath.Join(clockImages(s.rack.Folders), "tickmesh.tar")); err != nil {
			return err
		}
		manifest := fmt.Sprintf(`
apiVersion: tickmesh.dev/v1alpha1
kind: TickMeshCluster
metadata: {name: %s}
spec:
  image: tickmesh:%s
  retention: 1d
  nodes:
    count: 3
    resources: {requests: {cpu: 50m, memory: 128Mi}, limits: {memory: 512Mi}}
    podTemplate: {volumes: [{name: clock, emptyDir: {}}], volumeMounts: [{name: clock, mountPath: %s}]}
  replication: 2
  shards: 16
  routers: {count: 1}
  envoy: {enabled: false}
`, clockCluster, clockTag, clockFolder)
		if err := s.applyIn(ctx, namespace, manifest); err != nil {
			return err
		}
		if err := errors.Join(s.available(ctx, namespace, clockCluster), s.podReady(ctx, node)); err != nil {
			return err
		}
		if _, err := n.add(ctx, func() (bool, error) { return n.count >= 50, nil }); err != nil {
			return err
		}
		return n.check(ctx)
	})
	for _, step := range []struct {
		name  string
		ahead time.Duration
	}{
		{"a node's clock is 40 days ahead: it drops nothing", clockJump},
		{"it is 40 days behind", -clockJump},
		{"it is right again", 0},
	} {
		s.phase(step.name, func(ctx context.Context) error {
			if err := s.setClock(ctx, node, step.ahead); err != nil {
				return err
			}
			longest, err := n.add(ctx, func() (bool, error) { return s.clockTold(ctx, node, step.ahead) })
			fmt.Printf("  longest time without an answer that a write was taken: %s\n", longest.Round(time.Millisecond))
			if err == nil && longest > s.bounds.pause {
				err = fmt.Errorf("no write was taken for %s, and may be for %s at most", longest, s.bounds.pause)
			}
			return errors.Join(err, n.check(ctx))
		})
	}
	s.phase("the cluster with clocks is deleted", func(ctx context.Context) error {
		if err := s.deleteNeighbour(ctx, clockCluster); err != nil {
			return err
		}
		return s.settled(ctx, 3)
	})
}

// setClock sets the clock of a node's process ahead: it writes to an empty folder of its pod, as a file of its machine.
func (s *stage) setClock(ctx context.Context, pod string, ahead time.Duration) error {
	machine, err := s.machineOf(ctx, pod)
	if err != nil {
		return err
	}
	uid, err := s.kubectl(ctx, "get", "pod/"+pod, "--output=jsonpath={.metadata.uid}")
	if err != nil {
		return err
	}
	file := filepath.Join(s.rack.Folders.Run, machine, "kubelet", "pods", uid, "volumes", "kubernetes.io~empty-dir", "extra-clock", clockFile)
	if err := os.WriteFile(file+".new", fmt.Appendf(nil, "%d\n", int64(ahead/time.Second)), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// clockTold reports whether a node has noticed how far its clock is from the others', and keeps or has ended to keep retention from cutting.
func (s *stage) clockTold(ctx context.Context, pod string, ahead time.Duration) (bool, error) {
	differs, err := s.nodeMetric(ctx, pod, "tickmesh_clock_difference_seconds")
	if err != nil {
		return false, err
	}
	held, err := s.nodeMetric(ctx, pod, "tickmesh_retention_held")
	if err != nil {
		return false, err
	}
	far := differs > time.Hour.Seconds()
	if (ahead != 0) != far || (ahead != 0) != (held == 1) {
		return false, fmt.Errorf("%s: clocks differ by %.0f s, retention held: %v", pod, differs, held)
	}
	return true, nil
}

// nodeMetric returns a figure of a node.
func (s *stage) nodeMetric(ctx context.Context, pod, name string) (float64, error) {
	url := fmt.Sprintf("http://%s.%s-node.%s.svc.cluster.local:6191/metrics", pod, clockCluster, namespace)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := client(s.rack).Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return 0, err
	}
	line := regexp.MustCompile(`(?m)^` + name + `(?:\{[^}]*\})? (\S+)$`).FindSubmatch(text)
	if line == nil {
		return 0, fmt.Errorf("%s: %s has no %s", url, response.Status, name)
	}
	return strconv.ParseFloat(string(line[1]), 64)
}
