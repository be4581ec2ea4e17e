package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// upgrade installs the next release: its images, and its chart, which asks for them.
// Nodes are restarted one at a time.
func (s *stage) upgrade() {
	s.phase("the next release's images are copied", s.loadImages(nextImages(s.rack.Folders)))
	s.phase("recipe upgrade: one node after the other", func(ctx context.Context) (err error) {
		if s.release, err = nextRelease(s.rack.Folders.Checkout, s.TempDir()); err != nil {
			return err
		}
		w, err := s.watchNodes(ctx)
		if err != nil {
			return err
		}
		defer w.stop()
		return errors.Join(s.recipeSettled(ctx, 3, "upgrade", anyVersion, nextVersion), w.stop())
	})
}

var chartVersionLine = regexp.MustCompile(`(?m)^appVersion: "([^"]+)"$`)

// chartVersion returns the version of the product that a checkout's chart installs.
func chartVersion(checkout string) (string, error) {
	text, err := os.ReadFile(filepath.Join(checkout, "charts", "tickmesh", "Chart.yaml"))
	if err != nil {
		return "", err
	}
	version := chartVersionLine.FindSubmatch(text)
	if version == nil {
		return "", errors.New("the chart has no appVersion")
	}
	return string(version[1]), nil
}

// nextRelease makes a folder that has the chart as the next release will have it.
func nextRelease(checkout, folder string) (string, error) {
	chart := filepath.Join(folder, "charts", "tickmesh")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(checkout, "charts", "tickmesh"))); err != nil {
		return "", err
	}
	file := filepath.Join(chart, "Chart.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return folder, os.WriteFile(file, chartVersionLine.ReplaceAllLiteral(text, fmt.Appendf(nil, "appVersion: %q", nextVersion)), 0o644)
}

// nodeWatch follows the pods of nodes, and finds moments with more than one that is not
// ready.
type nodeWatch struct {
	cmd   *exec.Cmd
	end   context.CancelFunc
	ended chan struct{}
	once  sync.Once
	found error
}

// watchNodes begins to follow the pods of nodes.
func (s *stage) watchNodes(ctx context.Context) (*nodeWatch, error) {
	ctx, end := context.WithCancel(ctx)
	w := &nodeWatch{end: end, ended: make(chan struct{})}
	w.cmd = s.rack.Command(ctx, "kubectl", "--namespace="+namespace, "get", "pods", "--selector=app.kubernetes.io/component=node", "--watch",
		`--output=jsonpath={.metadata.name} {.status.conditions[?(@.type=="Ready")].status} deleted={.metadata.deletionTimestamp}{"\n"}`)
	output, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		end()
		return nil, err
	}
	go func() {
		defer close(w.ended)
		w.run(ctx, output)
	}()
	return w, nil
}

// run reads what kubectl tells until it ends, which is a fault unless ctx has ended before.
func (w *nodeWatch) run(ctx context.Context, output io.Reader) {
	unready := map[string]bool{}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		pod, state, _ := strings.Cut(lines.Text(), " ")
		unready[pod] = state != "True deleted="
		var now []string
		for pod, yes := range unready {
			if yes {
				now = append(now, pod)
			}
		}
		if len(now) > 1 && w.found == nil {
			slices.Sort(now)
			w.found = fmt.Errorf("not ready at the same time: %s", strings.Join(now, ", "))
		}
	}
	if ctx.Err() == nil && w.found == nil {
		w.found = errors.Join(errors.New("the watch over the nodes' pods has ended before its time: nobody knows what was not ready since"), lines.Err())
	}
}

// A watch that ends early has found nothing out.
func TestNodeWatch(t *testing.T) {
	const calm = "demo-node-0 True deleted=\ndemo-node-1 True deleted=\n"
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, test := range []struct {
		ctx    context.Context
		output string
		want   string // in what was found; empty: nothing
	}{
		{stopped, calm, ""},
		{t.Context(), calm, "has ended before its time"},
		{stopped, calm + "demo-node-0 False deleted=\n", ""},
		{stopped, calm + "demo-node-0 False deleted=\ndemo-node-1 True deleted=now\n", "not ready at the same time: demo-node-0, demo-node-1"},
	} {
		var w nodeWatch
		w.run(test.ctx, strings.NewReader(test.output))
		if test.want == "" && w.found != nil || test.want != "" && (w.found == nil || !strings.Contains(w.found.Error(), test.want)) {
			t.Errorf("%q: %v", test.output, w.found)
		}
	}
}

// stop ends the watch and returns what was found. It can be called again.
func (w *nodeWatch) stop() error {
	w.once.Do(func() {
		w.end()
		<-w.ended
		_ = w.cmd.Wait() // it was killed
	})
	return w.found
}

// certificates has all certificates made anew, by deleting their Secrets and annotations: every
// server shows its new one without a restart, and each node its own.
func (s *stage) certificates() {
	s.phase("recipe rotate-certificates: nobody restarts", func(ctx context.Context) error {
		pods, err := s.processes(ctx)
		if err != nil {
			return err
		}
		before := map[string][]byte{}
		for _, holder := range []string{
			"pod/demo-node-0", "pod/demo-node-1", "pod/demo-node-2", "secret/demo-router-tls", "secret/demo-etcd-tls", "secret/demo-operator-tls",
		} {
			if before[holder], err = s.certificate(ctx, holder); err != nil {
				return err
			}
		}
		if err := s.recipe(ctx, "rotate-certificates"); err != nil {
			return err
		}
		for holder, old := range before {
			if err := lab.Wait(ctx, func() (bool, error) {
				now, err := s.certificate(ctx, holder)
				return err == nil && !bytes.Equal(now, old), err
			}); err != nil {
				return fmt.Errorf("%s is not made anew: %w", holder, err)
			}
		}
		// Routers show theirs to nodes and etcd only; that they go on says that it is taken.
		for server, holder := range map[string]string{
			"demo-node-0.demo-node:6190": "pod/demo-node-0", "demo-node-1.demo-node:6190": "pod/demo-node-1", "demo-node-2.demo-node:6190": "pod/demo-node-2",
			"demo-etcd-0.demo-etcd:2379": "secret/demo-etcd-tls", "demo-etcd-1.demo-etcd:2379": "secret/demo-etcd-tls", "demo-etcd-2.demo-etcd:2379": "secret/demo-etcd-tls",
		} {
			if err := s.shows(ctx, server, holder); err != nil {
				return err
			}
		}
		for ordinal := range 3 {
			if err := s.named(ctx, fmt.Sprintf("demo-node-%d", ordinal)); err != nil {
				return err
			}
		}
		now, err := s.processes(ctx)
		if err == nil && now != pods {
			err = fmt.Errorf("pods were %s, and are %s", pods, now)
		}
		return errors.Join(err, s.settled(ctx, 3))
	})
}

// processes names all pods of the first cluster, with how often each was restarted.
func (s *stage) processes(ctx context.Context) (string, error) { return s.processesOf(ctx, "demo") }

func (s *stage) processesOf(ctx context.Context, cluster string) (string, error) {
	return s.kubectl(ctx, "get", "pods", "--selector=tickmesh.dev/cluster="+cluster, "--sort-by=.metadata.name",
		`--output=go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{.metadata.uid}} {{(index .status.containerStatuses 0).restartCount}}; {{end}}{{end}}`)
}

// named finds out whether the certificate of a node's pod is of that node alone.
func (s *stage) named(ctx context.Context, pod string) error {
	der, err := s.certificate(ctx, "pod/"+pod)
	if err != nil {
		return err
	}
	c, err := x509.ParseCertificate(der)
	if err == nil && (len(c.URIs) != 1 || c.URIs[0].String() != "tickmesh://demo/node/"+pod) {
		err = fmt.Errorf("the certificate of %s is of %v", pod, c.URIs)
	}
	return err
}

// certificate returns the certificate of a Secret or a pod, as kubectl names them.
func (s *stage) certificate(ctx context.Context, holder string) ([]byte, error) {
	path, decode := `{.data.tls\.crt}`, base64.StdEncoding.DecodeString
	if strings.HasPrefix(holder, "pod/") {
		path, decode = `{.metadata.annotations.tickmesh\.dev/certificate}`, func(text string) ([]byte, error) { return []byte(text), nil }
	}
	text, err := s.kubectl(ctx, "get", holder, "--output=jsonpath="+path)
	if err != nil {
		return nil, err
	}
	chain, err := decode(text)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(chain)
	if block == nil {
		return nil, fmt.Errorf("%s has no certificate", holder)
	}
	return block.Bytes, nil
}

// shows waits until a server shows the certificate of a Secret or a pod.
func (s *stage) shows(ctx context.Context, server, holder string) error {
	wanted, err := s.certificate(ctx, holder)
	if err != nil {
		return err
	}
	name, port, err := net.SplitHostPort(server)
	if err != nil {
		return err
	}
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Resolver: s.rack.Resolver(), Timeout: 2 * time.Second},
		Config:    &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}},
	}
	err = lab.Wait(ctx, func() (bool, error) {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(name+"."+namespace+".svc.cluster.local", port))
		if err != nil {
			return false, err
		}
		defer conn.Close()
		shown := conn.(*tls.Conn).ConnectionState().PeerCertificates
		return len(shown) > 0 && bytes.Equal(shown[0].Raw, wanted), nil
	})
	if err != nil {
		return fmt.Errorf("%s does not show the certificate of %s: %w", server, holder, err)
	}
	return nil
}
