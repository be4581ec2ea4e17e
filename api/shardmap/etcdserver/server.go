package etcdserver

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// ErrStart marks an etcd server that did not start: a bad address, a used folder, or
// no answer in time.
var ErrStart = errors.New("the embedded etcd did not start")

// ErrStop marks an etcd server that did not stop in time.
var ErrStop = errors.New("the embedded etcd did not stop")

// Options configure a server.
type Options struct {
	DataDir       string // made if it is not there
	ClientAddress string // host:port; port 0: any free one
	PeerAddress   string // host:port for other members, of which there are none; empty: any free port of the loopback
	QuotaBytes    int64  // of its database; 0: QuotaBytesDefault
	NoSync        bool   // do not wait for the disk: for tests only
	Log           *slog.Logger

	Membership *Membership // nil: a cluster of this member alone
	ClientTLS  TLSFiles    // of the listener for clients, who must show a certificate; none named: no TLS
	PeerTLS    TLSFiles    // of connections between members, both ways; certificates of others are refused
	// VerifyClient judges who calls over ClientTLS, by the verified chains of the certificate; nil:
	// whoever has one may call.
	VerifyClient   func(chains [][]*x509.Certificate) error
	MetricsAddress string // host:port for /metrics and /health, always without TLS; empty: with the clients'
}

// Defaults and bounds.
const (
	QuotaBytesDefault = 256 << 20 // the map and its recent versions need a few MiB
	startTimeout      = time.Minute
	stopTimeout       = 20 * time.Second
	memberName        = "embedded"
	// Old versions are of use only to watches that were away for a while, and these can read all anew. While
	// shards move, each change writes the whole map, and versions of two such times have to fit into the quota.
	compactionRetention = "1m"
	// Etcd holds the last entries of its log in memory, after a start all since its last snapshot, too, and each may
	// be a whole map. A member that is further behind gets the database.
	snapshotEntries = 250
	catchUpEntries  = 100
)

// Server is a running etcd.
type Server struct {
	etcd     *embed.Etcd
	endpoint string
	stopping *atomic.Bool // what etcd logs from now on is no news
}

// Start starts a server and waits until it can be written to. Errors: ErrStart.
func Start(ctx context.Context, o Options) (*Server, error) {
	stopping := &atomic.Bool{}
	config, err := configOf(o, stopping)
	if err != nil {
		return nil, err
	}
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	var late <-chan time.Time // members of a cluster may have to wait for the others
	if o.Membership == nil {
		timeout := time.NewTimer(startTimeout)
		defer timeout.Stop()
		late = timeout.C
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return &Server{etcd: etcd, endpoint: etcd.Clients[0].Addr().String(), stopping: stopping}, nil
	case err = <-etcd.Err():
	case <-etcd.Server.StopNotify():
		err = errors.New("it stopped")
	case <-late:
		err = fmt.Errorf("not ready after %s", startTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", ErrStart, errors.Join(err, end(etcd)))
}

// Endpoint returns the host:port at which clients reach the server.
func (s *Server) Endpoint() string { return s.endpoint }

// Failed returns an error when the server can no longer serve.
func (s *Server) Failed() <-chan error { return s.etcd.Err() }

// Close stops the server; what it has answered is on disk. A client that has
// connected and says nothing can hold etcd up, so the wait is bounded. Errors: ErrStop.
func (s *Server) Close() error {
	if s.stopping.Swap(true) {
		return nil // it is being stopped, or was
	}
	return end(s.etcd)
}

// end stops an etcd. One that waits for others which do not know it may never end. Errors:
// ErrStop.
func end(etcd *embed.Etcd) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		etcd.Close()
	}()
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-done:
		return nil
	case <-timeout.C:
		return fmt.Errorf("%w after %s", ErrStop, stopTimeout)
	}
}

func configOf(o Options, stopping *atomic.Bool) (*embed.Config, error) {
	if o.PeerAddress == "" {
		o.PeerAddress = "127.0.0.1:0"
	}
	client, err := urlOf(o.ClientAddress, o.ClientTLS)
	if err != nil {
		return nil, err
	}
	peer, err := urlOf(o.PeerAddress, o.PeerTLS)
	if err != nil {
		return nil, err
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := embed.NewConfig()
	c.Name, c.Dir = memberName, o.DataDir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.InitialClusterToken = "tickmesh"
	if err := o.Membership.apply(c); err != nil {
		return nil, err
	}
	members, err := peers(c)
	if err != nil {
		return nil, err
	}
	c.ClientTLSInfo, c.PeerTLSInfo = o.ClientTLS.info(), o.PeerTLS.info(memberHosts(o.PeerTLS.CA, members)...)
	c.GRPCAdditionalServerOptions = o.callers()
	if o.MetricsAddress != "" {
		metrics, err := urlOf(o.MetricsAddress, TLSFiles{})
		if err != nil {
			return nil, err
		}
		c.ListenMetricsUrls = []url.URL{metrics}
	}
	c.QuotaBackendBytes = o.QuotaBytes
	if c.QuotaBackendBytes == 0 {
		c.QuotaBackendBytes = QuotaBytesDefault
	}
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, compactionRetention
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotEntries, catchUpEntries
	c.UnsafeNoFsync = o.NoSync
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(newCore(log.With("part", "etcd"), stopping)))
	return c, nil
}

// urlOf checks an address. The server listens where it advertises, so a port of 0 is
// fine only because nobody asks it for its advertised address. No host means every
// address of this machine, as everywhere; etcd wants it said in digits.
func urlOf(address string, tls TLSFiles) (url.URL, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return url.URL{}, fmt.Errorf("%w: address %q: %w", ErrStart, address, err)
	}
	if host == "" {
		if host, err = unspecified(); err != nil {
			return url.URL{}, fmt.Errorf("%w: address %q: %w", ErrStart, address, err)
		}
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}
	if tls.Cert != "" {
		u.Scheme = "https"
	}
	return u, nil
}

// unspecified is the address that stands for every address of this machine: of both
// families, or of IPv4 where the kernel has no other.
func unspecified() (string, error) {
	listener, err := net.Listen("tcp", ":0") //nolint:gosec // nothing is accepted: it is closed at once
	if err != nil {
		return "", err
	}
	defer listener.Close()
	host, _, err := net.SplitHostPort(listener.Addr().String())
	return host, err
}
