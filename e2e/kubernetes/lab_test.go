package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

const architecture = runtime.GOARCH

// conditionTime bounds a phase. The loss of a machine is believed after 20 s, and its
// pods are given up 30 s later; a machine that is busy with other things takes longer.
const conditionTime = 6 * time.Minute

// needLab returns the lab to a test, or skips it.
func needLab(t *testing.T) *lab.Rack {
	t.Helper()
	if rack == nil {
		t.Skip(skipReason)
	}
	return rack
}

// skipShort skips a test of what the lab can, which the product's tests show, too.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short: the scenes of TestCluster need the same of the lab")
	}
}

// logState reports what the cluster looks like when a test fails.
func logState(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "nodes,pods,pvc,pv", "--all-namespaces", "--output=wide"},
		{"get", "events", "--all-namespaces", "--sort-by=.lastTimestamp", "--field-selector=type=Warning"},
	} {
		output, err := rack.Kubectl(context.Background(), args...)
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	kept, err := keepLogs(rack.Folders)
	t.Logf("logs of all pods are in %s (%v)", kept, err)
}

// keepLogs copies the logs that machines have of pods, also those that are off, to a folder that
// outlives the lab.
func keepLogs(f lab.Folders) (folder string, err error) {
	folder = filepath.Join(f.Checkout, ".cache", "tests", "kubernetes-logs", time.Now().UTC().Format("20060102T150405"))
	logs, err := filepath.Glob(filepath.Join(f.Run, "*", "log", "pods", "*", "*", "*.log*"))
	failed := []error{err}
	for _, log := range logs {
		name, err := filepath.Rel(f.Run, log)
		failed = append(failed, err, os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755), copyFile(filepath.Join(folder, name), log))
	}
	return folder, errors.Join(failed...)
}

// copyFile copies a file that may grow meanwhile, or be removed.
func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.WriteFile(to, text, 0o644))
}

// phase runs one step of a test and prints how long it took.
func phase(t *testing.T, name string, do func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), conditionTime)
	defer cancel()
	begin := time.Now()
	if err := do(ctx); err != nil {
		logState(t)
		t.Fatalf("%s: %v", name, err)
	}
	report(name, time.Since(begin))
}

// client speaks HTTP to names of the cluster. It keeps no connections: names move from
// pod to pod.
func client(r *lab.Rack) *http.Client {
	dialer := net.Dialer{Resolver: r.Resolver(), Timeout: 2 * time.Second}
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
	}
}

// get asks until the answer's body holds wanted.
func get(ctx context.Context, c *http.Client, url, wanted string) error {
	return lab.Wait(ctx, func() (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return true, err
		}
		response, err := c.Do(request)
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err == nil && !strings.Contains(string(body), wanted) {
			err = fmt.Errorf("%s: %s: %.300s", url, response.Status, body)
		}
		return err == nil, err
	})
}

// post sends a body until it is taken.
func post(ctx context.Context, c *http.Client, url, body string) error {
	return lab.Wait(ctx, func() (bool, error) {
		err := postOnce(ctx, c, url, body)
		return err == nil, err
	})
}

// postOnce sends a body. Any answer but that it was taken is an error.
func postOnce(ctx context.Context, c *http.Client, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return nil
}

// serversManifest is three standalone servers with a volume each: enough to prove of the
// lab what the operator's clusters need of it. IMAGE stands for the image under test.
func serversManifest(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "servers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	version, err := chartVersion(rack.Folders.Checkout)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "IMAGE", "tickmesh:"+version)
}

func serverURL(i int) string {
	return fmt.Sprintf("http://server-%d.servers.default.svc.cluster.local:6182", i)
}

func sampleQuery(i int) string {
	return serverURL(i) + "/api/query?start=1700000000&end=1700000100&m=sum:lab%7Bserver=" + fmt.Sprint(i) + "%7D"
}

// The lab is a Kubernetes: volumes, names, services, and machines that can be lost and
// come back with their disks.
func TestLab(t *testing.T) {
	r := needLab(t)
	skipShort(t)
	c := client(r)
	phase(t, "product's image loaded", func(ctx context.Context) error {
		return r.LoadImage(ctx, filepath.Join(productImages(r.Folders), "tickmesh.tar"))
	})
	t.Cleanup(func() {
		if _, err := r.Kubectl(context.Background(), "delete", "--ignore-not-found", "statefulset/server", "service/servers", "service/server"); err != nil {
			t.Error(err)
		}
		if _, err := r.Kubectl(context.Background(), "delete", "pvc", "--selector=app=server"); err != nil {
			t.Error(err)
		}
	})
	phase(t, "stateful set with volumes", func(ctx context.Context) error {
		if err := r.Apply(ctx, serversManifest(t)); err != nil {
			return err
		}
		return r.WaitOutput(ctx, "3", "get", "statefulset/server", "--output=jsonpath={.status.readyReplicas}")
	})
	phase(t, "a sample into each, by its name", func(ctx context.Context) error {
		for i := range 3 {
			if err := post(ctx, c, serverURL(i)+"/write?precision=s", fmt.Sprintf("lab,server=%d value=%d 1700000042\n", i, i+7)); err != nil {
				return err
			}
		}
		return nil
	})
	hasSamples := func(ctx context.Context) error {
		for i := range 3 {
			if err := get(ctx, c, sampleQuery(i), fmt.Sprintf(`"1700000042":%d`, i+7)); err != nil {
				return err
			}
		}
		return nil
	}
	phase(t, "samples by name", hasSamples)
	phase(t, "service by its address", func(ctx context.Context) error {
		address, err := r.Kubectl(ctx, "get", "service/server", "--output=jsonpath={.spec.clusterIP}")
		if err != nil {
			return err
		}
		return get(ctx, c, "http://"+address+":6182/readyz", "")
	})
	phase(t, "a deleted pod comes back with its data", func(ctx context.Context) error {
		if _, err := r.Kubectl(ctx, "delete", "pod/server-1"); err != nil {
			return err
		}
		return hasSamples(ctx)
	})
	testMachineLoss(t, r, hasSamples)
}

func testMachineLoss(t *testing.T, r *lab.Rack, hasSamples func(context.Context) error) {
	var machine string
	phase(t, "power off: Kubernetes sees it", func(ctx context.Context) (err error) {
		if machine, err = r.Kubectl(ctx, "get", "pod/server-2", "--output=jsonpath={.spec.nodeName}"); err != nil {
			return err
		}
		if err := r.PowerOff(ctx, machine); err != nil {
			return err
		}
		return r.WaitNodes(ctx, 2)
	})
	phase(t, "power on: the pod is back with its data", func(ctx context.Context) error {
		if err := r.PowerOn(ctx, machine); err != nil {
			return err
		}
		if err := r.WaitNodes(ctx, 3); err != nil {
			return err
		}
		return hasSamples(ctx)
	})
	phase(t, "cut off: Kubernetes sees it", func(ctx context.Context) error {
		if err := r.Cut(ctx, machine); err != nil {
			return err
		}
		return r.WaitNodes(ctx, 2)
	})
	phase(t, "mended", func(ctx context.Context) error {
		if err := r.Mend(ctx, machine); err != nil {
			return err
		}
		if err := r.WaitNodes(ctx, 3); err != nil {
			return err
		}
		return hasSamples(ctx)
	})
}

// A board is replaced: a machine that was never there joins, and goes for good.
func TestNewMachine(t *testing.T) {
	r := needLab(t)
	skipShort(t)
	phase(t, "a new machine joins", func(ctx context.Context) error {
		if err := r.PowerOn(ctx, "node6"); err != nil {
			return err
		}
		return r.WaitNodes(ctx, 4)
	})
	phase(t, "it is taken away", func(ctx context.Context) error {
		if err := r.PowerOff(ctx, "node6"); err != nil {
			return err
		}
		if _, err := r.Kubectl(ctx, "delete", "node/node6"); err != nil {
			return err
		}
		return r.WaitNodes(ctx, 3)
	})
}

// The programs that the product's tests need are there: Envoy as an image, and helm.
func TestPrograms(t *testing.T) {
	r := needLab(t)
	phase(t, "Envoy runs in a pod", func(ctx context.Context) error {
		_, err := r.Kubectl(ctx, "run", "envoy", "--image="+lab.EnvoyImage, "--image-pull-policy=Never", "--restart=Never", "--", "--version")
		if err != nil {
			return err
		}
		if err := r.WaitOutput(ctx, "Succeeded", "get", "pod/envoy", "--output=jsonpath={.status.phase}"); err != nil {
			return err
		}
		output, err := r.Kubectl(ctx, "logs", "pod/envoy")
		if err == nil && !strings.Contains(output, "/1.40.0/") {
			err = fmt.Errorf("Envoy says %q", output)
		}
		_, deleted := r.Kubectl(ctx, "delete", "pod/envoy")
		return errors.Join(err, deleted)
	})
	phase(t, "helm lists releases", func(ctx context.Context) error {
		return r.Command(ctx, "helm", "list", "--all-namespaces").Run()
	})
}

// Nothing of the lab can reach the machine's network or the world.
func TestNoWayOut(t *testing.T) {
	r, ctx := needLab(t), t.Context()
	for _, where := range []string{"192.0.2.1:80", "198.51.100.1:443"} { // of documentation: RFC 5737
		connection, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", where)
		if err == nil {
			connection.Close()
			t.Errorf("%s answered", where)
		}
	}
	output, err := r.Command(ctx, "ip", "-json", "route", "show", "default").Output()
	if err != nil || strings.Contains(string(output), "dst") {
		t.Errorf("the lab has a default route: %s, %v", output, err)
	}
}
