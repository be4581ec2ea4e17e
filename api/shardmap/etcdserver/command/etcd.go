package command

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

// etcdSettings are the flags of `tickmesh etcd`.
type etcdSettings struct {
	dataDir                                string
	name                                   string
	clientAddr, peerAddr, metricsAddr      settings.Address
	advertiseClient, initialCluster, token string
	state                                  settings.Choice
	clientTLS, peerTLS                     settings.TLSFiles
	quota                                  settings.Bytes
	settings.Insecure
	settings.Log
	members []etcdserver.Member // of initialCluster
}

func (s *etcdSettings) Define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.dataDir, "data-dir", "etcd-data", "`folder` for its data; made if missing")
	s.clientAddr, s.peerAddr = "127.0.0.1:2379", "127.0.0.1:2380"
	f.Var(&s.clientAddr, "client-addr", "where nodes and routers connect")
	f.Var(&s.peerAddr, "peer-addr", "where other members connect")
	f.Var(&s.metricsAddr, "metrics-addr", "HTTP without TLS: /metrics and /health; empty: on --client-addr only")
	f.StringVar(&s.name, "name", "", "`name` of this member (default: the host's name)")
	f.StringVar(&s.initialCluster, "initial-cluster", "", "all `members`, as name=URL with commas between; empty: this one alone")
	f.StringVar(&s.advertiseClient, "advertise-client", "", "`URL` at which nodes and routers reach this member; needed with --initial-cluster")
	s.state = settings.Choice{Value: "new", Words: []string{"new", "existing"}}
	f.Var(&s.state, "initial-state", "new: all members make the cluster together; existing: it runs, and has been told of this member")
	f.StringVar(&s.token, "initial-token", "tickmesh", "`word` that tells this cluster from others")
	s.quota = etcdserver.QuotaBytesDefault
	f.Var(&s.quota, "quota", "size of the database, at most")
	settings.Group(f, settings.HeadingCluster, "data-dir", "client-addr", "peer-addr", "metrics-addr", "name", "initial-cluster", "advertise-client", "initial-state", "initial-token", "quota")
	f.StringVar(&s.clientTLS.Cert, "client-tls-cert", "", "`file` with the certificate of --client-addr; empty: no TLS")
	f.StringVar(&s.clientTLS.Key, "client-tls-key", "", "`file` with its key")
	f.StringVar(&s.clientTLS.CA, "client-tls-ca", "", "`file` with the CAs of clients, which then must show a certificate")
	f.StringVar(&s.peerTLS.Cert, "peer-tls-cert", "", "`file` with the certificate for connections between members; empty: no TLS")
	f.StringVar(&s.peerTLS.Key, "peer-tls-key", "", "`file` with its key")
	f.StringVar(&s.peerTLS.CA, "peer-tls-ca", "", "`file` with the CA of the members' certificates")
	settings.Group(f, settings.HeadingTLS, "client-tls-cert", "client-tls-key", "client-tls-ca", "peer-tls-cert", "peer-tls-key", "peer-tls-ca")
	s.Insecure.Define(f)
	s.Log.Define(f)
}

func (s *etcdSettings) Validate() error {
	var v settings.Validation
	if s.dataDir == "" {
		v.Refuse("data-dir", "", "expected the name of a folder")
	}
	s.clientTLS.Validate(&v, "client-tls")
	s.peerTLS.Validate(&v, "peer-tls")
	if s.clientTLS.Cert == "" || s.clientTLS.CA == "" {
		s.Expose(&v, "client-addr", string(s.clientAddr), "client-tls")
	}
	if s.peerTLS.Cert == "" || s.peerTLS.CA == "" {
		s.Expose(&v, "peer-addr", string(s.peerAddr), "peer-tls")
	}
	v.SizeBetween("quota", s.quota, 16<<20, 8<<30)
	if s.initialCluster != "" {
		var err error
		if s.members, err = etcdserver.ParseMembers(s.initialCluster); err != nil {
			v.Refuse("initial-cluster", s.initialCluster, "expected name=URL with commas between, each name once")
		}
		if s.advertiseClient == "" {
			v.Refuse("advertise-client", "", "expected a URL, as --initial-cluster is given")
		}
	}
	return v.Err()
}

// New returns `tickmesh etcd`.
func New() *cobra.Command {
	s := &etcdSettings{}
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Run a member of the placement store",
		Long: `Runs etcd, the store of the shard map, from its own library: one program is enough for a whole
cluster. An etcd that is there already does as well.`,
		Example: `  tickmesh etcd --data-dir /var/lib/etcd
  T=certs/etcd-e1    # of: tickmesh certs etcd/e1=e1 etcd/e2=e2 etcd/e3=e3
  tickmesh etcd --name e1 --peer-addr :2380 --client-addr :2379 --advertise-client https://e1:2379 \
    --client-tls-cert $T.crt --client-tls-key $T.key --client-tls-ca certs/ca.crt \
    --peer-tls-cert $T.crt --peer-tls-key $T.key --peer-tls-ca certs/ca.crt \
    --initial-cluster e1=https://e1:2380,e2=https://e2:2380,e3=https://e3:2380`,
		Args: cobra.NoArgs,
	}
	settings.Bind(cmd, s, []string{settings.HeadingCluster, settings.HeadingTLS, settings.HeadingOperation}, func(ctx context.Context, logger *slog.Logger, _ io.Writer) error {
		return s.run(ctx, logger)
	})
	return cmd
}

func (s *etcdSettings) run(ctx context.Context, logger *slog.Logger) error {
	s.Warn(logger)
	options, err := s.options(logger)
	if err != nil {
		return err
	}
	server, err := etcdserver.Start(ctx, options)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was asked to end before it was ready
		}
		return err
	}
	logger.Info("listening", "port", "client", "address", server.Endpoint())
	select {
	case err = <-server.Failed():
	case <-ctx.Done():
	}
	if closeErr := server.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (s *etcdSettings) options(logger *slog.Logger) (o etcdserver.Options, err error) {
	o = etcdserver.Options{
		DataDir: s.dataDir, ClientAddress: string(s.clientAddr), PeerAddress: string(s.peerAddr), MetricsAddress: string(s.metricsAddr),
		QuotaBytes: int64(s.quota), Log: logger,
		VerifyClient: handshake.VerifyStoreClient, ClientTLS: etcdserver.TLSFiles(s.clientTLS), PeerTLS: etcdserver.TLSFiles(s.peerTLS),
	}
	if len(s.members) == 0 {
		return o, nil
	}
	name := s.name
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return o, err
		}
	}
	o.Membership = &etcdserver.Membership{
		Name: name, AdvertiseClient: s.advertiseClient, Members: s.members, Existing: s.state.Value == "existing", Token: s.token,
	}
	return o, nil
}
