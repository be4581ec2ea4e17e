package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

// etcdSettings are the flags of `tickmesh etcd`.
type etcdSettings struct {
	dataDir                                string
	name                                   string
	clientAddr, peerAddr, metricsAddr      address
	advertiseClient, initialCluster, token string
	state                                  oneOf
	clientTLS, peerTLS                     tlsFiles
	quota                                  byteSize
	config                                 string
	logFormat, logLevel                    oneOf
	insecureSetting
	members []etcdserver.Member // of initialCluster
}

func (s *etcdSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.dataDir, "data-dir", "etcd-data", "`folder` for its data; made if missing")
	s.clientAddr, s.peerAddr = "127.0.0.1:2379", "127.0.0.1:2380"
	f.Var(&s.clientAddr, "client-addr", "where nodes and routers connect")
	f.Var(&s.peerAddr, "peer-addr", "where other members connect")
	f.Var(&s.metricsAddr, "metrics-addr", "HTTP without TLS: /metrics and /health; empty: on --client-addr only")
	f.StringVar(&s.name, "name", "", "`name` of this member (default: the host's name)")
	f.StringVar(&s.initialCluster, "initial-cluster", "", "all `members`, as name=URL with commas between; empty: this one alone")
	f.StringVar(&s.advertiseClient, "advertise-client", "", "`URL` at which nodes and routers reach this member; needed with --initial-cluster")
	s.state = oneOf{value: "new", words: []string{"new", "existing"}}
	f.Var(&s.state, "initial-state", "new: all members make the cluster together; existing: it runs, and has been told of this member")
	f.StringVar(&s.token, "initial-token", "tickmesh", "`word` that tells this cluster from others")
	s.quota = etcdserver.QuotaBytesDefault
	f.Var(&s.quota, "quota", "size of the database, at most")
	group(f, headingCluster, "data-dir", "client-addr", "peer-addr", "metrics-addr", "name", "initial-cluster", "advertise-client", "initial-state", "initial-token", "quota")
	f.StringVar(&s.clientTLS.cert, "client-tls-cert", "", "`file` with the certificate of --client-addr; empty: no TLS")
	f.StringVar(&s.clientTLS.key, "client-tls-key", "", "`file` with its key")
	f.StringVar(&s.clientTLS.ca, "client-tls-ca", "", "`file` with the authorities of clients, which then must show a certificate")
	f.StringVar(&s.peerTLS.cert, "peer-tls-cert", "", "`file` with the certificate for connections between members; empty: no TLS")
	f.StringVar(&s.peerTLS.key, "peer-tls-key", "", "`file` with its key")
	f.StringVar(&s.peerTLS.ca, "peer-tls-ca", "", "`file` with the authority of the members' certificates")
	group(f, headingTLS, "client-tls-cert", "client-tls-key", "client-tls-ca", "peer-tls-cert", "peer-tls-key", "peer-tls-ca")
	s.insecureSetting.define(f)
	f.StringVar(&s.config, flagConfig, "", "YAML `file` with settings")
	s.logFormat = oneOf{value: "text", words: []string{"text", "json"}}
	f.Var(&s.logFormat, "log-format", "form of the log on standard error")
	s.logLevel = oneOf{value: "info", words: []string{"debug", "info", "warn", "error"}}
	f.Var(&s.logLevel, "log-level", "least important kind of log line")
	group(f, headingOperation, flagConfig, "log-format", "log-level")
}

func (s *etcdSettings) validate() error {
	var v validation
	if s.dataDir == "" {
		v.refuse("data-dir", "", "expected the name of a folder")
	}
	s.clientTLS.validate(&v, "client-tls")
	s.peerTLS.validate(&v, "peer-tls")
	if s.clientTLS.cert == "" || s.clientTLS.ca == "" {
		s.expose(&v, "client-addr", string(s.clientAddr), "client-tls")
	}
	if s.peerTLS.cert == "" || s.peerTLS.ca == "" {
		s.expose(&v, "peer-addr", string(s.peerAddr), "peer-tls")
	}
	v.sizeBetween("quota", s.quota, 16<<20, 8<<30)
	if s.initialCluster != "" {
		var err error
		if s.members, err = etcdserver.ParseMembers(s.initialCluster); err != nil {
			v.refuse("initial-cluster", s.initialCluster, "expected name=URL with commas between, each name once")
		}
		if s.advertiseClient == "" {
			v.refuse("advertise-client", "", "expected a URL, as --initial-cluster is given")
		}
	}
	return v.err()
}

func (s *etcdSettings) log() (format, level string) { return s.logFormat.value, s.logLevel.value }

func newEtcdCommand() *cobra.Command {
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
	runWith(cmd, s, []string{headingCluster, headingTLS, headingOperation}, func(ctx context.Context, logger *slog.Logger, _ io.Writer) error {
		return s.run(ctx, logger)
	})
	return cmd
}

func (s *etcdSettings) run(ctx context.Context, logger *slog.Logger) error {
	s.warn(logger)
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
		QuotaBytes: int64(s.quota), Log: logger, ClientTLS: s.clientTLS.ofEtcd(), PeerTLS: s.peerTLS.ofEtcd(),
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
		Name: name, AdvertiseClient: s.advertiseClient, Members: s.members, Existing: s.state.value == "existing", Token: s.token,
	}
	return o, nil
}

func (t *tlsFiles) ofEtcd() etcdserver.TLSFiles {
	return etcdserver.TLSFiles{Cert: t.cert, Key: t.key, CA: t.ca}
}
