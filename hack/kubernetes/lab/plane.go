package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// How soon Kubernetes believes that a machine is lost, and then gives up its pods.
// Half a minute and five are the defaults; the tests would wait for nothing else.
const (
	nodeLossTime     = "20s"
	nodeEvictionTime = "30"
)

// plane is the control plane: processes of the rack.
type plane struct {
	folders Folders
	tree    *tree
}

func (p plane) pki(name string) string { return p.folders.pki(name) }

// start starts etcd, the API server, the controllers, the scheduler, and a proxy of
// services for the rack's own network.
func (p plane) start() error {
	logs := filepath.Join(p.folders.Run, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	proxy := filepath.Join(p.folders.Run, "proxy.yaml")
	// It acts for the first node, as it must be one; it needs nothing else of it.
	if err := os.WriteFile(proxy, proxyConfiguration(p.folders, node(1), rackAddress), 0o644); err != nil {
		return err
	}
	for _, argv := range [][]string{p.etcd(), p.apiserver(), p.controllers(), p.scheduler(), {"kube-proxy", "--config=" + proxy}} {
		name := argv[0]
		argv[0] = p.folders.program(name)
		if err := p.tree.keep(name, filepath.Join(logs, name+".log"), argv...); err != nil {
			return err
		}
	}
	return nil
}

// etcd listens inside the rack only, where nothing runs but the lab, and does not
// wait for the disk: the loss of the rack is the end of the lab.
func (p plane) etcd() []string {
	return []string{
		"etcd", "--name=lab", "--data-dir=" + filepath.Join(p.folders.Run, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=lab=http://127.0.0.1:2380",
	}
}

func (p plane) apiserver() []string {
	return []string{
		"kube-apiserver",
		"--bind-address=" + rackAddress, "--advertise-address=" + rackAddress, "--secure-port=" + strconv.Itoa(apiPort),
		"--etcd-servers=http://127.0.0.1:2379",
		"--tls-cert-file=" + p.pki("apiserver.crt"), "--tls-private-key-file=" + p.pki("apiserver.key"),
		"--client-ca-file=" + p.pki("ca.crt"),
		"--kubelet-certificate-authority=" + p.pki("ca.crt"),
		"--kubelet-client-certificate=" + p.pki("apiserver-kubelet.crt"), "--kubelet-client-key=" + p.pki("apiserver-kubelet.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.pki("tokens.pub"), "--service-account-signing-key-file=" + p.pki("tokens.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--requestheader-client-ca-file=" + p.pki("front.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + p.pki("front-client.crt"), "--proxy-client-key-file=" + p.pki("front-client.key"),
		"--enable-aggregator-routing=true",
		"--service-cluster-ip-range=" + serviceNetwork, "--allow-privileged=true", "--profiling=false",
		"--default-not-ready-toleration-seconds=" + nodeEvictionTime, "--default-unreachable-toleration-seconds=" + nodeEvictionTime,
	}
}

func (p plane) controllers() []string {
	config := p.pki("controllers.kubeconfig")
	return []string{
		"kube-controller-manager",
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1", "--leader-elect=false", "--use-service-account-credentials=true",
		"--root-ca-file=" + p.pki("ca.crt"), "--client-ca-file=" + p.pki("ca.crt"),
		"--service-account-private-key-file=" + p.pki("tokens.key"),
		"--cluster-signing-cert-file=" + p.pki("ca.crt"), "--cluster-signing-key-file=" + p.pki("ca.key"),
		"--requestheader-client-ca-file=" + p.pki("front.crt"),
		"--allocate-node-cidrs=false", "--cluster-cidr=" + podNetwork, "--service-cluster-ip-range=" + serviceNetwork,
		"--node-monitor-grace-period=" + nodeLossTime,
	}
}

func (p plane) scheduler() []string {
	config := p.pki("scheduler.kubeconfig")
	return []string{
		"kube-scheduler",
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1", "--leader-elect=false",
	}
}

// proxyConfiguration is kube-proxy's, for one machine or the rack. The limits of
// connection tracking belong to the whole kernel and are left alone.
func proxyConfiguration(f Folders, n node, address string) []byte {
	return fmt.Appendf(nil, `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: %s
hostnameOverride: %s
bindAddress: %s
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
oomScoreAdj: 0
clientConnection: {kubeconfig: %q}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, podNetwork, n.name(), address, f.pki("proxy.kubeconfig"))
}

// waitReady waits until the API server says that it is ready, as long as ctx allows.
func (p plane) waitReady(ctx context.Context) error {
	client, err := adminClient(p.folders)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return Wait(ctx, func() (bool, error) {
		err := getOK(ctx, client, apiURL()+"/readyz")
		return err == nil, err
	})
}

func getOK(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// adminClient speaks to the API server as the lab's administrator.
func adminClient(f Folders) (*http.Client, error) {
	certificate, err := tls.LoadX509KeyPair(f.pki("admin.crt"), f.pki("admin.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(f.pki("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate}, RootCAs: roots, MinVersion: tls.VersionTLS13,
		}},
	}, nil
}
