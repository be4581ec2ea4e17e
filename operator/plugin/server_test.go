package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// The plugin finds a real API server as kubectl does, and what it writes is taken there.
func TestServer(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: KUBEBUILDER_ASSETS=$(hack/kubernetes/envtest.sh)")
	}
	server := &envtest.Environment{CRDDirectoryPaths: []string{"../../charts/tickmesh/crds"}, ErrorIfCRDPathMissing: true}
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	user, err := server.AddUser(envtest.User{Name: "person", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	access, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, access, 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := Connect(Access{Kubeconfig: file, Namespace: "db"})
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "db"}}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db"}}, c} {
		if err := k.API.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Dial(t.Context(), c); err == nil || !strings.Contains(err.Error(), errNoRouter.Error()) {
		t.Errorf("a cluster without routers: %v", err)
	}
	checkForward(t, k, "db")
	w := &world{t: t, status: meshOf(3)}
	if w.api, err = client.NewWithWatch(config, client.Options{Scheme: k.API.Scheme()}); err != nil {
		t.Fatal(err)
	}
	w.forecast = newWorld(t).forecast
	w.wants("drain demo-node-1 demo-node-0")
	if got := w.drained(); !slices.Equal(got, []string{"demo-node-1", "demo-node-0"}) {
		t.Errorf("drained %v", got)
	}
	w.wants("undrain demo-node-1")
	if got := w.drained(); !slices.Equal(got, []string{"demo-node-0"}) {
		t.Errorf("drained %v", got)
	}
	w.wants("backup --claim vault --name one --ttl 30d --follow=false", "backup one is made")
	w.wants("backup --s3-endpoint https://s3.example.com --s3-bucket metrics --s3-secret keys --verify --follow=false")
	w.refuses("backup --claim vault --name Two --follow=false", "Two")
	w.refuses("backup --claim vault --ttl soon --follow=false", "ttl")
}
