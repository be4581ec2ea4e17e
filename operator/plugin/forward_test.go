package plugin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// fakeRouter answers who shows the token, and nobody else.
type fakeRouter struct {
	tickmeshv1.UnimplementedClusterServiceServer
	token string
}

func (f *fakeRouter) GetStatus(ctx context.Context, _ *tickmeshv1.GetStatusRequest) (*tickmeshv1.GetStatusResponse, error) {
	if shown := metadata.ValueFromIncomingContext(ctx, "authorization"); len(shown) != 1 || shown[0] != "Bearer "+f.token {
		return nil, errNoRouter
	}
	return &tickmeshv1.GetStatusResponse{Cluster: "demo", Shards: 7}, nil
}

func (f *fakeRouter) GetServerInfo(_ context.Context, r *tickmeshv1.GetServerInfoRequest) (*tickmeshv1.GetServerInfoResponse, error) {
	return &tickmeshv1.GetServerInfoResponse{Version: "test", Cluster: "demo", ApiLevel: r.GetApiLevel(), ApiLevelMin: 1}, nil
}

// start serves with a certificate for a name, and returns the address and the authority.
func (f *fakeRouter) start(t *testing.T, name string) (address string, authority []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})))
	tickmeshv1.RegisterClusterServiceServer(server, f)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// fakeKubelet forwards the port of routers of any pod to one address, as kubelets do.
type fakeKubelet struct {
	to      string
	forward sync.WaitGroup
}

func (f *fakeKubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/portForward/") {
		http.NotFound(w, r)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return // it has answered
	}
	streams := make(chan httpstream.Stream, 8)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if connection == nil {
		return
	}
	defer connection.Close()
	for {
		select {
		case s := <-streams:
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeData && s.Headers().Get(corev1.PortHeader) == strconv.Itoa(build.PortGRPC) {
				f.forward.Go(func() { f.carry(s) })
			} else {
				_ = s.Close() // there are no errors to tell
			}
		case <-connection.CloseChan():
			return
		}
	}
}

func (f *fakeKubelet) carry(s httpstream.Stream) {
	defer s.Close()
	c, err := net.Dial("tcp", f.to)
	if err != nil {
		return
	}
	defer c.Close()
	f.forward.Go(func() {
		_, _ = io.Copy(c, s)
		_ = c.Close()
	})
	_, _ = io.Copy(s, c)
}

// throughAPI makes what the plugin finds a router by: a machine with the kubelet, a pod
// that is ready there, and the Secrets.
func (f *fakeKubelet) throughAPI(t *testing.T, api client.Client, c *v1alpha1.TickMeshCluster, authority []byte, token string) {
	t.Helper()
	kubelet := httptest.NewTLSServer(f)
	t.Cleanup(kubelet.Close)
	at, err := url.Parse(kubelet.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "demo-router-0", Namespace: c.Namespace, Labels: build.Labels(c, build.ComponentRouter)},
		Spec:       corev1.PodSpec{NodeName: "machine", Containers: []corev1.Container{{Name: "router", Image: "router"}}},
	}
	access := build.AccessRouters(c)
	for _, o := range []client.Object{
		machine, pod,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: access.CASecret, Namespace: c.Namespace}, Data: map[string][]byte{"ca.crt": authority}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: access.TokenSecret, Namespace: c.Namespace}, Data: map[string][]byte{build.KeyToken: []byte(token)}},
	} {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	machine.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	machine.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, o := range []client.Object{machine, pod} {
		if err := api.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// checkForward connects to a router with TLS and a token, through a real API server and an
// obvious kubelet.
func checkForward(t *testing.T, k *Kubernetes, namespace string) {
	t.Helper()
	c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: namespace}}
	c.Spec.Service.TLS = &v1alpha1.ServiceTLS{}
	c.Spec.Security.AuthSecretName = "users"
	c.Spec.TLS.Mode = v1alpha1.TLSModeOperator
	name, _, err := net.SplitHostPort(build.AccessRouters(c).Address)
	if err != nil {
		t.Fatal(err)
	}
	router := &fakeRouter{token: "secret"}
	address, authority := router.start(t, name)
	kubelet := &fakeKubelet{to: address}
	kubelet.throughAPI(t, k.API, c, authority, router.token)
	m, err := k.Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	status, err := m.Status(t.Context(), false)
	if err != nil || status.Cluster != "demo" || status.Shards != 7 {
		t.Errorf("%+v, %v", status, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	kubelet.forward.Wait() // nothing is forwarded any more
}
