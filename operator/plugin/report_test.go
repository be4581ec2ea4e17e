package plugin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// newPodWorld has a cluster with two pods, one of which was restarted, and a Secret.
func newPodWorld(t *testing.T) *world {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "db"}}
	objects := []client.Object{
		cluster,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-ca", Namespace: "db", Labels: map[string]string{build.LabelCluster: "demo"}}, Data: map[string][]byte{"tls.key": []byte("most-private")}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stranger", Namespace: "db"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}},
	}
	objects = append(objects, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "release-operator", Namespace: "elsewhere", Labels: build.OperatorSelector()},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator"}}},
	})
	for _, component := range []string{build.ComponentNode, build.ComponentRouter} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "demo-" + component + "-0", Namespace: "db", Labels: build.Labels(cluster, component)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "tickmesh"}}},
		}
		if component == build.ComponentNode {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tickmesh", RestartCount: 1}}
		}
		objects = append(objects, pod)
	}
	w := &world{t: t, status: meshOf(3), api: fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).Build()}
	w.logs = func(_ context.Context, pod *corev1.Pod, container string, lines int64, previous bool) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(fmt.Sprintf("%s %s says %d, %v\n", pod.Name, container, lines, previous))), nil
	}
	return w
}

// A report has what Kubernetes and the routers tell, and all logs; no Secret, nothing of strangers' pods,
// and what cannot be read keeps nothing else out.
func TestReport(t *testing.T) {
	for _, reachable := range []bool{true, false} {
		w := newPodWorld(t)
		if !reachable {
			w.dialErr = errors.New("no way there")
		}
		file := filepath.Join(t.TempDir(), "report.tar.gz")
		w.wants("report demo --file "+file, "is written")
		files := unpack(t, file)
		for name, says := range map[string]string{
			"clusters.yaml": "name: demo", "pods.yaml": "demo-node-0", "machines.yaml": "items", "events.yaml": "items",
			"logs/demo-node-0/tickmesh.log": "demo-node-0 tickmesh says 5000, false", "logs/demo-node-0/tickmesh.previous.log": "true",
			"logs/demo-router-0/tickmesh.log": "demo-router-0", "logs/operator/release-operator/operator.log": "release-operator",
		} {
			if !strings.Contains(files[name], says) {
				t.Errorf("%s: %q", name, files[name])
			}
		}
		if _, has := files["status.yaml"]; has != reachable || strings.Contains(files["missing.txt"], "no way there") == reachable {
			t.Errorf("routers are reached: %v; %q", reachable, files["missing.txt"])
		}
		for name, text := range files {
			if strings.Contains(text, "most-private") || strings.Contains(name+text, "stranger") {
				t.Errorf("%s: %s", name, text)
			}
		}
		w.refuses("report demo --file "+file, "exists")
	}
}

func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

// Of a log that is too long, a report has the newest bytes.
func TestReportOfLongLog(t *testing.T) {
	w := newPodWorld(t)
	lines := strings.Repeat("an old line\n", 1<<20)
	w.logs = func(context.Context, *corev1.Pod, string, int64, bool) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(lines + "the newest line\n")), nil
	}
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	w.wants("report demo --file "+file, "is written")
	if log := unpack(t, file)["logs/demo-node-0/tickmesh.log"]; len(log) != reportLogBytes || !strings.HasSuffix(log, "an old line\nthe newest line\n") {
		t.Errorf("%d bytes, the last of them %q", len(log), log[max(0, len(log)-30):])
	}
}

func TestLogs(t *testing.T) {
	w := newPodWorld(t)
	out := w.wants("logs demo", "demo-node-0/tickmesh demo-node-0 tickmesh says 100, false\n", "demo-router-0/tickmesh ")
	if strings.Contains(out, "stranger") {
		t.Error(out)
	}
	if out := w.wants("logs --component router --tail 7", "says 7,"); strings.Contains(out, "demo-node") {
		t.Error(out)
	}
	w.logs = func(context.Context, *corev1.Pod, string, int64, bool) (io.ReadCloser, error) {
		return nil, errors.New("kubelet is gone")
	}
	w.refuses("logs demo", "read the log of demo-node-0/tickmesh: kubelet is gone", "demo-router-0")
}

// A pod that does not start has the logs of what prepares it, in a report too.
func TestLogsOfPreparation(t *testing.T) {
	w := newPodWorld(t)
	pod := &corev1.Pod{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: "demo-node-0"}, pod); err != nil {
		t.Fatal(err)
	}
	pod.Spec.InitContainers = []corev1.Container{{Name: "certificate"}}
	if err := w.api.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "certificate", RestartCount: 2}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tickmesh", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
	if err := w.api.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if out := w.wants("logs demo", "demo-node-0/certificate demo-node-0 certificate says"); strings.Contains(out, "demo-node-0/tickmesh") {
		t.Error(out)
	}
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	w.wants("report demo --file "+file, "is written")
	files := unpack(t, file)
	for _, name := range []string{"logs/demo-node-0/certificate.log", "logs/demo-node-0/certificate.previous.log"} {
		if files[name] == "" {
			t.Errorf("%s is missing: %q", name, files["missing.txt"])
		}
	}
}

// A pause changes spec.paused, and nothing else.
func TestPause(t *testing.T) {
	w := newPodWorld(t)
	for _, paused := range []bool{true, true, false} {
		line, says := "resume demo", "is not paused"
		if paused {
			line, says = "pause demo", "is paused"
		}
		w.wants(line, says)
		c := &v1alpha1.TickMeshCluster{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: "demo"}, c); err != nil || c.Spec.Paused != paused {
			t.Errorf("%s: %v, %v", line, c.Spec.Paused, err)
		}
	}
	w.wants("pause -o json", `"paused": true`)
	w.refuses("pause other", "not found")
}
