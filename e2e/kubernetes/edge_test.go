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

const (
	edgeCluster = "secure"
	edgeDoor    = edgeCluster + "." + namespace + ".svc"
)

// edge makes a cluster whose clients speak TLS with Envoy, first without certificates of their own and then with.
func (s *stage) edge() {
	var server *tls.Config
	s.phase("service.tls: HTTP and the SDK through Envoy", func(ctx context.Context) error {
		if err := s.applyIn(ctx, namespace, neighbour(edgeCluster, "  routers: {count: 1}\n  envoy: {replicas: 1}\n  service: {tls: {}}\n")); err != nil {
			return err
		}
		if err := s.available(ctx, namespace, edgeCluster); err != nil {
			return err
		}
		text, err := s.kubectl(ctx, "get", "secret/"+edgeCluster+"-edge-tls", `--output=jsonpath={.data.ca\.crt}`)
		if err != nil {
			return err
		}
		authority, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		server = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: edgeDoor, MinVersion: tls.VersionTLS12}
		if !server.RootCAs.AppendCertsFromPEM(authority) {
			return fmt.Errorf("no certificate in %q", authority)
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
		known := server.Clone()
		known.Certificates = []tls.Certificate{{Certificate: [][]byte{pair.Certificate.Raw}, PrivateKey: pair.Key}}
		// Envoys with the old configuration go when those with the new one are ready.
		if err := lab.Wait(ctx, func() (bool, error) {
			now, err := envoys()
			return len(strings.Fields(now)) == 1 && now != before, err
		}); err != nil {
			return err
		}
		return errors.Join(s.unserved(ctx, server), s.served(ctx, known))
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

// edgeAddress returns the address of the Service of the cluster with TLS, and a port.
func (s *stage) edgeAddress(ctx context.Context, port int) (string, error) {
	address, err := s.kubectl(ctx, "get", "service/"+edgeCluster, "--output=jsonpath={.spec.clusterIP}")
	return net.JoinHostPort(address, fmt.Sprint(port)), err
}

// edgeHTTP makes a client of HTTP that speaks TLS as config says, and the address to speak to.
func (s *stage) edgeHTTP(ctx context.Context, config *tls.Config) (c *http.Client, url string, err error) {
	address, err := s.edgeAddress(ctx, portHTTP)
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
	}, "https://" + address, err
}

// served writes by HTTP and with the SDK, both with TLS as config says, and reads both back.
func (s *stage) served(ctx context.Context, config *tls.Config) error {
	c, url, err := s.edgeHTTP(ctx, config)
	if err != nil {
		return err
	}
	if err := post(ctx, c, url+"/write?precision=s", "edge,by=http value=7 1700000042\n"); err != nil {
		return err
	}
	address, err := s.edgeAddress(ctx, portGRPC)
	if err != nil {
		return err
	}
	sdk, err := meshclient.New(meshclient.Options{Endpoints: []string{address}, Credentials: credentials.NewTLS(config.Clone()), WriteTimeout: conditionTime})
	if err != nil {
		return err
	}
	series, err := meshclient.NewSeries("edge", meshclient.Tag{Name: "by", Value: "grpc"})
	if err == nil {
		err = sdk.Write(ctx, meshclient.Sample{Series: series, TimeMs: 1700000042_000, Value: 8})
	}
	if err := errors.Join(err, sdk.Close()); err != nil {
		return err
	}
	return get(ctx, c, url+"/api/query?start=1700000000&end=1700000100&m=sum:edge", `"1700000042":15`)
}

// unserved waits until no client is served that speaks TLS as config says.
func (s *stage) unserved(ctx context.Context, config *tls.Config) error {
	c, url, err := s.edgeHTTP(ctx, config)
	if err != nil {
		return err
	}
	if err := lab.Wait(ctx, func() (bool, error) {
		response, err := c.Get(url + "/api/version")
		if err != nil {
			if strings.Contains(err.Error(), "certificate required") {
				return true, nil
			}
			return false, err
		}
		return false, errors.Join(fmt.Errorf("a client without a certificate is answered %s", response.Status), response.Body.Close())
	}); err != nil {
		return err
	}
	address, err := s.edgeAddress(ctx, portGRPC)
	if err != nil {
		return err
	}
	sdk, err := meshclient.New(meshclient.Options{Endpoints: []string{address}, Credentials: credentials.NewTLS(config.Clone()), WriteTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	series, err := meshclient.NewSeries("edge", meshclient.Tag{Name: "by", Value: "nobody"})
	if err != nil {
		return err
	}
	err = sdk.Write(ctx, meshclient.Sample{Series: series, TimeMs: 1700000042_000, Value: 1})
	if closed := sdk.Close(); err == nil {
		return errors.Join(errors.New("the SDK wrote without a certificate"), closed)
	}
	return nil
}
