package plugin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

const (
	forwardTimeout = 20 * time.Second // until a connection is forwarded
	callTimeout    = 30 * time.Second // of a router
)

// errNoRouter marks a cluster without a router that could be asked.
var errNoRouter = errors.New("no router is ready")

// Connect is the Connector of real Kubernetes.
func Connect(a Access) (*Kubernetes, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: a.Context}
	overrides.Context.Namespace = a.Namespace
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find Kubernetes: %w", err)
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		return nil, err
	}
	api, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	clients, err := clientgo.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	k := &Kubernetes{API: api, Namespace: namespace}
	k.Logs = func(ctx context.Context, pod *corev1.Pod, container string, lines int64, previous bool) (io.ReadCloser, error) {
		options := &corev1.PodLogOptions{Container: container, TailLines: &lines, Previous: previous}
		return clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	}
	k.Dial = func(ctx context.Context, c *v1alpha1.TickMeshCluster) (Mesh, error) { return k.dial(ctx, config, c) }
	return k, nil
}

// forwarded is a client over a connection that Kubernetes forwards.
type forwarded struct {
	*tickmesh.Client
	stop func()
}

// Close implements Mesh.
func (f *forwarded) Close() error {
	err := f.Client.Close()
	f.stop()
	return err
}

// dial forwards a port of this machine to a router, and connects to it.
func (k *Kubernetes) dial(ctx context.Context, config *rest.Config, c *v1alpha1.TickMeshCluster) (Mesh, error) {
	pod, err := k.router(ctx, c)
	if err != nil {
		return nil, err
	}
	options := tickmesh.Options{Name: "kubectl-tickmesh", CallTimeout: callTimeout, AttemptTimeout: callTimeout}
	if options.Credentials, err = k.credentials(ctx, c); err != nil {
		return nil, err
	}
	if options.Token, err = k.token(ctx, c); err != nil {
		return nil, err
	}
	port, stop, err := forward(ctx, config, pod, build.PortGRPC)
	if err != nil {
		return nil, fmt.Errorf("forward a port to pod %s: %w", pod.Name, err)
	}
	options.Endpoints = []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))}
	router, err := tickmesh.New(options)
	if err != nil {
		stop()
		return nil, err
	}
	return &forwarded{router, stop}, nil
}

// router returns the pod of a router that is ready.
func (k *Kubernetes) router(ctx context.Context, c *v1alpha1.TickMeshCluster) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := k.API.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels(build.Selector(c, build.ComponentRouter))); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		for _, condition := range pods.Items[i].Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pods.Items[i].DeletionTimestamp == nil {
				return &pods.Items[i], nil
			}
		}
	}
	return nil, fmt.Errorf("%w: of %d", errNoRouter, len(pods.Items))
}

// credentials returns what the routers are trusted by; nil: they have no TLS.
func (k *Kubernetes) credentials(ctx context.Context, c *v1alpha1.TickMeshCluster) (credentials.TransportCredentials, error) {
	access := build.AccessRouters(c)
	if access.CASecret == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if err := k.API.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: access.CASecret}, secret); err != nil {
		return nil, fmt.Errorf("the CA of the routers' certificates: %w", err)
	}
	host, _, err := net.SplitHostPort(access.Address)
	if err != nil {
		return nil, err
	}
	// The name in the certificate is that of the Service, not of the forwarded port.
	t := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: host}
	if !t.RootCAs.AppendCertsFromPEM(secret.Data[corev1.ServiceAccountRootCAKey]) {
		return nil, fmt.Errorf("secret %s has no certificates in ca.crt", access.CASecret)
	}
	return credentials.NewTLS(t), nil
}

// token returns what the routers are shown; empty: they ask for nothing.
func (k *Kubernetes) token(ctx context.Context, c *v1alpha1.TickMeshCluster) (string, error) {
	name := build.AccessRouters(c).TokenSecret
	if name == "" {
		return "", nil
	}
	secret := &corev1.Secret{}
	if err := k.API.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, secret); err != nil {
		return "", fmt.Errorf("the token that routers ask for: %w", err)
	}
	return string(secret.Data[build.KeyToken]), nil
}

// forward forwards a port of this machine to one of a pod, until stop is called.
func forward(ctx context.Context, config *rest.Config, pod *corev1.Pod, to int) (port uint16, stop func(), err error) {
	clients, err := clientgo.NewForConfig(config)
	if err != nil {
		return 0, nil, err
	}
	url := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return 0, nil, err
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stopped, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{":" + strconv.Itoa(to)}, stopped, ready, io.Discard, io.Discard)
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	stop = func() { close(stopped); <-ended } //nolint:errcheck // it ends because it is told to
	select {
	case <-ready:
	case err := <-ended:
		return 0, nil, err
	case <-ctx.Done():
		stop()
		return 0, nil, ctx.Err()
	case <-time.After(forwardTimeout):
		stop()
		return 0, nil, fmt.Errorf("it took more than %v", forwardTimeout)
	}
	ports, err := forwarder.GetPorts()
	if err != nil || len(ports) != 1 {
		stop()
		return 0, nil, errors.Join(err, fmt.Errorf("%d ports", len(ports)))
	}
	return ports[0].Local, stop, nil
}
