package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/certificate"
	meshclient "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

const edgeCluster = "secure"

// door is how a client is let in to a cluster of its own beside the first one.
type door struct {
	cluster string
	tls     *tls.Config
	token   string // of a user; empty: none is shown
}

// openDoor returns how clients connect that trust the CA of the certificate that a cluster shows them.
func (s *stage) openDoor(ctx context.Context, cluster string) (d door, err error) {
	text, err := s.kubectl(ctx, "get", "secret/"+cluster+"-edge-tls", `--output=jsonpath={.data.ca\.crt}`)
	if err != nil {
		return d, err
	}
	authority, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return d, err
	}
	d = door{cluster: cluster, tls: &tls.Config{RootCAs: x509.NewCertPool(), ServerName: cluster + "." + namespace + ".svc", MinVersion: tls.VersionTLS12}}
	if !d.tls.RootCAs.AppendCertsFromPEM(authority) {
		err = fmt.Errorf("no certificate in %q", authority)
	}
	return d, err
}

// edge makes a cluster whose clients speak TLS with Envoy, first without certificates of their own and then with.
func (s *stage) edge() {
	var server door
	s.phase("service.tls: HTTP and the SDK through Envoy", func(ctx context.Context) error {
		if err := s.applyIn(ctx, namespace, neighbour(edgeCluster, "  routers: {count: 1}\n  envoy: {replicas: 1}\n  service: {tls: {}}\n")); err != nil {
			return err
		}
		if err := s.available(ctx, namespace, edgeCluster); err != nil {
			return err
		}
		var err error
		if server, err = s.openDoor(ctx, edgeCluster); err != nil {
			return err
		}
		return s.served(ctx, server)
	})
	s.phase("clients need certificates: without one nobody is served", func(ctx context.Context) error {
		now := time.Now()
		ca, err := certificate.NewCA("clients", "CA of clients", time.Hour, now)
		if err != nil {
			return err
		}
		pair, err := ca.Issue(certificate.Identity{CommonName: "sensor"}, time.Hour, now)
		if err != nil {
			return err
		}
		file := filepath.Join(s.TempDir(), "ca.crt")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate.Raw}), 0o600); err != nil {
			return err
		}
		if _, err := s.kubectl(ctx, "create", "secret", "generic", "clients", "--from-file=ca.crt="+file); err != nil {
			return err
		}
		envoys := func() (string, error) {
			return s.kubectl(ctx, "get", "pods", "--selector=tickmesh.dev/cluster="+edgeCluster+",app.kubernetes.io/component=envoy", "--output=name")
		}
		before, err := envoys()
		if err != nil {
			return err
		}
		if err := s.patch(ctx, "tmc/"+edgeCluster, `{"spec":{"service":{"tls":{"clientCASecretName":"clients"}}}}`); err != nil {
			return err
		}
		known := server
		known.tls = server.tls.Clone()
		known.tls.Certificates = []tls.Certificate{{Certificate: [][]byte{pair.Certificate.Raw}, PrivateKey: pair.Key}}
		// Envoys with the old configuration go when those with the new one are ready.
		if err := lab.Wait(ctx, func() (bool, error) {
			now, err := envoys()
			return len(strings.Fields(now)) == 1 && now != before, err
		}); err != nil {
			return err
		}
		return errors.Join(s.unserved(ctx, server, "certificate required"), s.served(ctx, known))
	})
	s.phase("the cluster with TLS is deleted", func(ctx context.Context) error {
		if err := s.deleteNeighbour(ctx, edgeCluster); err != nil {
			return err
		}
		if _, err := s.kubectl(ctx, "delete", "secret/clients"); err != nil {
			return err
		}
		return s.settled(ctx, 3)
	})
}

// doorAddress returns the address of a cluster's Service, and a port.
func (s *stage) doorAddress(ctx context.Context, d door, port int) (string, error) {
	address, err := s.kubectl(ctx, "get", "service/"+d.cluster, "--output=jsonpath={.spec.clusterIP}")
	return net.JoinHostPort(address, fmt.Sprint(port)), err
}

// showing shows a token with each request.
type showing struct {
	token string
	next  http.RoundTripper
}

func (s showing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.token)
	return s.next.RoundTrip(r)
}

// doorHTTP makes a client of HTTP, and the address to speak to.
func (s *stage) doorHTTP(ctx context.Context, d door) (c *http.Client, url string, err error) {
	address, err := s.doorAddress(ctx, d, portHTTP)
	c = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: d.tls, DisableKeepAlives: true}}
	if d.token != "" {
		c.Transport = showing{d.token, c.Transport}
	}
	return c, "https://" + address, err
}

// write writes a sample with the SDK.
func (s *stage) write(ctx context.Context, d door, by string, value float64, within time.Duration) error {
	address, err := s.doorAddress(ctx, d, portGRPC)
	if err != nil {
		return err
	}
	sdk, err := meshclient.New(meshclient.Options{Endpoints: []string{address}, Credentials: credentials.NewTLS(d.tls.Clone()), Token: d.token, WriteTimeout: within})
	if err != nil {
		return err
	}
	series, err := meshclient.NewSeries("edge", meshclient.Tag{Name: "by", Value: by})
	if err == nil {
		err = sdk.Write(ctx, meshclient.Sample{Series: series, TimeMs: 1700000042_000, Value: value})
	}
	return errors.Join(err, sdk.Close())
}

// served writes by HTTP and with the SDK, and reads both back.
func (s *stage) served(ctx context.Context, d door) error {
	c, url, err := s.doorHTTP(ctx, d)
	if err != nil {
		return err
	}
	if err := post(ctx, c, url+"/write?precision=s", "edge,by=http value=7 1700000042\n"); err != nil {
		return err
	}
	if err := s.write(ctx, d, "grpc", 8, conditionTime); err != nil {
		return err
	}
	return get(ctx, c, url+"/api/query?start=1700000000&end=1700000100&m=sum:edge", `"1700000042":15`)
}

// unserved waits until a client is refused, as it is told by an error of the connection or by an answer's status.
func (s *stage) unserved(ctx context.Context, d door, refusal string) error {
	c, url, err := s.doorHTTP(ctx, d)
	if err != nil {
		return err
	}
	if err := lab.Wait(ctx, func() (bool, error) {
		response, err := c.Get(url + "/api/version")
		if err != nil {
			if strings.Contains(err.Error(), refusal) {
				err = nil
			}
			return err == nil, err
		}
		if err := response.Body.Close(); err != nil || strings.Contains(response.Status, refusal) {
			return err == nil, err
		}
		return false, fmt.Errorf("a client that is to be refused is answered %s", response.Status)
	}); err != nil {
		return err
	}
	if s.write(ctx, d, "nobody", 1, 5*time.Second) == nil {
		return errors.New("the SDK wrote where it is to be refused")
	}
	return nil
}
