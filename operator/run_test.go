package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/controller"
)

const (
	assetsVariable = "KUBEBUILDER_ASSETS"
	assetsFolder   = "../.cache/kubernetes/bin" // where `hack/kubernetes/envtest.sh` puts them
	waitMax        = time.Minute
)

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The program as it is runs on a real API server: it is elected, makes the objects of a
// cluster whose etcd is not there, says so, and ends when it is told to.
func TestRun(t *testing.T) {
	assets := os.Getenv(assetsVariable)
	if assets == "" && testing.Short() {
		t.Skip("a real API server is left out by -short, unless " + assetsVariable + " is set")
	}
	if assets == "" {
		assets = assetsFolder
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		if os.Getenv(assetsVariable) != "" {
			t.Fatal(err)
		}
		t.Skip("no kube-apiserver: run hack/kubernetes/envtest.sh, or set " + assetsVariable)
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, CRDDirectoryPaths: []string{"../charts/tickmesh/crds"}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme, err := controller.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(), &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default"}}); err != nil {
		t.Fatal(err)
	}
	s := &settings{
		image: "tickmesh:test", envoyImage: "envoy:test", namespace: "default", leaderElection: true, concurrency: 1,
		metricsAddr: freeAddress(t), healthAddr: freeAddress(t), logFormat: "text", logLevel: "info",
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, config, s.logger(io.Discard)) }()
	eventually(t, "the cluster's objects are there, and its status", func() bool {
		c := &v1alpha1.TickMeshCluster{}
		key := types.NamespacedName{Namespace: "default", Name: "demo"}
		return api.Get(ctx, key, &corev1.Service{}) == nil && api.Get(ctx, key, c) == nil && c.Status.Phase == v1alpha1.PhaseCreating
	})
	eventually(t, "it is ready", func() bool { return strings.Contains(get(t, "http://"+s.healthAddr+"/readyz"), "ok") })
	eventually(t, "it has metrics", func() bool {
		return strings.Contains(get(t, "http://"+s.metricsAddr+"/metrics"), `tickmesh_operator_nodes{cluster="demo",namespace="default",state="wanted"} 3`)
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > waitMax {
			t.Fatalf("never: %s", what)
		}
	}
}

// get returns the body of an answer; empty: there is none yet.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return ""
	}
	return string(body)
}
