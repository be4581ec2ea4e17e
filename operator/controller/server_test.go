package controller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/controller"
)

// server is a real API server with its etcd, shared by all tests of this package.
type server struct {
	once   sync.Once
	config *rest.Config
	client client.WithWatch // may do everything
	stop   func() error
	err    error
	names  atomic.Int64 // of namespaces
	writes writes

	// What operators connect with: they may do what their markers say, and nothing else.
	operatorConfig *rest.Config
	operatorClient client.WithWatch
}

var apiServer = server{writes: writes{counts: map[place]uint64{}}}

const (
	assetsVariable = "KUBEBUILDER_ASSETS"
	assetsFolder   = "../../.cache/kubernetes/bin" // where `hack/kubernetes/envtest.sh` puts them
)

var errNoAssets = errors.New("no kube-apiserver: run hack/kubernetes/envtest.sh, or set " + assetsVariable)

func (s *server) start() error {
	assets := os.Getenv(assetsVariable)
	if assets == "" && testing.Short() {
		return errNoAssets // make check is to be done in two minutes, also where make test has compiled one
	}
	if assets == "" {
		assets = assetsFolder
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		return errNoAssets
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory: assets, CRDDirectoryPaths: []string{"../../charts/tickmesh/crds"}, ErrorIfCRDPathMissing: true,
	}
	// Most of the work is the API server's, whose heap is small: two tests took a tenth less processor
	// time with this.
	if err := os.Setenv("GOGC", "400"); err != nil { // this process has read it already
		return err
	}
	// Nobody else asks it, so nobody has to wait in turn.
	environment.ControlPlane.GetAPIServer().Configure().Set("enable-priority-and-fairness", "false").Set("profiling", "false")
	config, err := environment.Start()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1 // it is ours alone
	s.config, s.stop = config, environment.Stop
	scheme, err := controller.Scheme()
	if err != nil {
		return err
	}
	if s.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return s.startOperatorClient(environment, scheme)
}

// startOperatorClient makes a user with the role that is generated from the markers.
func (s *server) startOperatorClient(environment *envtest.Environment, scheme *runtime.Scheme) error {
	text, err := os.ReadFile("../../charts/tickmesh/files/role.yaml")
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	document, _, _ := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n") // the other one is for elections
	if err := yaml.UnmarshalStrict([]byte(document), role); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "operator"}},
	}
	ctx := context.Background()
	if err := errors.Join(s.client.Create(ctx, role), s.client.Create(ctx, binding)); err != nil {
		return err
	}
	user, err := environment.AddUser(envtest.User{Name: "operator"}, nil)
	if err != nil {
		return err
	}
	s.operatorConfig = user.Config()
	s.operatorConfig.QPS, s.operatorConfig.Burst = -1, -1
	if s.operatorClient, err = client.NewWithWatch(s.operatorConfig, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // the API server hears of the role a little later
		err := s.operatorClient.List(ctx, &v1alpha1.TickMeshClusterList{})
		if !apierrors.IsForbidden(err) || time.Since(began) > waitMax {
			return err
		}
	}
}

// kubernetes returns the API server, or skips the test where there is none to be had.
func kubernetes(t *testing.T) *server {
	t.Helper()
	apiServer.once.Do(func() { apiServer.err = apiServer.start() })
	if errors.Is(apiServer.err, errNoAssets) && os.Getenv(assetsVariable) == "" {
		t.Skip(apiServer.err)
	}
	if apiServer.err != nil {
		t.Fatal(apiServer.err)
	}
	return &apiServer
}

func TestMain(m *testing.M) {
	code := m.Run()
	if apiServer.stop != nil {
		if err := apiServer.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}
	os.Exit(code)
}

// namespace makes one for a test.
func (s *server) namespace(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("t%d", s.names.Add(1))
	if err := s.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	return name
}

// errKilled is what an operator gets that was killed.
var errKilled = errors.New("the operator was killed")

// life counts what an operator writes, and ends it after so many writes.
type life struct {
	writes int // made
	limit  int // 0: none
}

func (l *life) write() error {
	if l.limit > 0 && l.writes >= l.limit {
		return errKilled
	}
	l.writes++
	return nil
}

// mortal returns a client of an operator that dies after some writes.
func (l *life) mortal(inner client.WithWatch) client.Client {
	return interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := l.write(); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := l.write(); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := l.write(); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := l.write(); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if err := l.write(); err != nil {
				return err
			}
			return c.Apply(ctx, o, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, made client.Object, opts ...client.SubResourceCreateOption) error {
			if err := l.write(); err != nil {
				return err
			}
			return c.SubResource(sub).Create(ctx, o, made, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := l.write(); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
}
