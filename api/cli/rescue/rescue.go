package rescue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

const headingRescue = "Rescue"

// rescueSettings are the flags of `tickmesh rescue-map`.
type rescueSettings struct {
	settings.Cluster
	settings.PeerTLS
	output              settings.Output
	nodes               []string // addresses
	lost                []string // names
	write, allowMissing bool
	timeout             settings.Duration
}

func (s *rescueSettings) Define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringSliceVar(&s.nodes, "nodes", nil, "`addresses` of the nodes (their --rpc-addr), with commas between: all that are alive")
	f.BoolVar(&s.write, "write", false, "put the map into etcd; without it the map is only shown")
	f.BoolVar(&s.allowMissing, "allow-missing", false, "go on though some nodes do not answer")
	f.StringSliceVar(&s.lost, "lost", nil, "`names` of nodes that are lost for good, with commas between: these need not answer")
	s.timeout = settings.Duration(10 * time.Second)
	f.Var(&s.timeout, "timeout", "how long a node may take to answer")
	s.output.Define(f)
	settings.Group(f, headingRescue, "nodes", "write", "allow-missing", "lost", "timeout", "output")
	s.DefineStore(f)
	s.PeerTLS.Define(f)
}

func (s *rescueSettings) Validate() error {
	var v settings.Validation
	s.Cluster.Validate(&v)
	s.PeerTLS.Validate(&v, s.EtcdEndpoints)
	v.NotZero("timeout", s.timeout)
	if len(s.nodes) == 0 {
		v.Refuse("nodes", "", "expected the addresses of the nodes")
	}
	for _, text := range s.nodes {
		var a settings.Address
		if err := a.Set(text); err != nil || text == "" {
			v.Refuse("nodes", text, "expected host:port")
			continue
		}
		s.ExposeRPC(&v, "nodes", text)
	}
	return v.Err()
}

// New returns `tickmesh rescue-map`.
func New() *cobra.Command {
	s := &rescueSettings{}
	cmd := &cobra.Command{
		Use: "rescue-map", Short: "Build the shard map anew from the nodes, when etcd was lost or set back", Args: cobra.NoArgs,
		Long: `Asks the nodes which map they have seen and which groups they have, builds the newest map from that,
and with --write puts it into etcd. The cluster serves on meanwhile; only placement waits. What else
etcd knew is lost: which nodes are being drained, and which data folders were given up. Drain again,
and do not start a node on a folder that was replaced.`,
		Example: `  T=certs/operator    # of: tickmesh certs operator
  tickmesh rescue-map --nodes n1:6190,n2:6190,n3:6190 \
    --rpc-tls-cert $T.crt --rpc-tls-key $T.key --rpc-tls-ca certs/ca.crt
  tickmesh rescue-map --nodes 127.0.0.1:6190,127.0.0.1:6290,127.0.0.1:6390 --write`,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := settings.Load(cmd.Flags(), os.Environ()); err != nil {
			return settings.WithHelp(cmd, err)
		}
		if err := s.Validate(); err != nil {
			return settings.WithHelp(cmd, err)
		}
		return s.run(cmd.Context(), slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})), cmd.OutOrStdout())
	}
	s.Define(cmd.Flags())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		settings.WriteUsage(cmd, cmd.OutOrStderr(), []string{headingRescue, settings.HeadingCluster, settings.HeadingTLS})
		return nil
	})
	return cmd
}

// rescue is what the nodes said, and what follows from it.
type rescue struct {
	Reports []nodeReport  `json:"nodes"`
	Absent  []string      `json:"absent"` // members of the map that did not report
	Written bool          `json:"written"`
	Map     *shardmap.Map `json:"map"`
}

// nodeReport is the answer of one address.
type nodeReport struct {
	Address string `json:"address"`
	Node    string `json:"node"`
	Epoch   uint64 `json:"epoch"` // of the newest map that it has seen
	Groups  int    `json:"groups"`
	Error   string `json:"error,omitempty"`

	report shardmap.Report
}

func (s *rescueSettings) run(ctx context.Context, logger *slog.Logger, out io.Writer) error {
	peers, err := s.RPCCredentials(s.Cluster.Name, certificate.RoleOperator, "", logger)
	if err != nil {
		return err
	}
	r := &rescue{Reports: s.ask(ctx, peers)}
	var reports []shardmap.Report
	silent := 0
	for _, n := range r.Reports {
		if n.Error != "" {
			silent++
			continue
		}
		reports = append(reports, n.report)
	}
	rescued, rescueErr := shardmap.Rescue(reports)
	if rescueErr == nil {
		r.Map, r.Absent = &rescued, absentOf(&rescued, reports)
	}
	switch {
	case rescueErr != nil:
		err = rescueErr
	case !s.write:
	case (silent > 0 || s.misses(r.Absent)) && !s.allowMissing:
		err = errors.New("nothing is written: not all nodes have reported; name those that are alive, and those that are lost for good with --lost, or add --allow-missing")
	default:
		err = s.put(ctx, rescued, newestEpoch(r.Reports), logger)
		r.Written = err == nil
	}
	if s.output.IsJSON() {
		return errors.Join(display.JSON(out, r), err)
	}
	return errors.Join(r.show(out), err)
}

// ask asks all nodes at once.
func (s *rescueSettings) ask(ctx context.Context, peers settings.PeerCredentials) []nodeReport {
	self := handshake.New(s.Cluster.Name, "", "", "", rand.Uint64())
	reports := make([]nodeReport, len(s.nodes))
	var asked sync.WaitGroup
	for i, to := range s.nodes {
		asked.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, time.Duration(s.timeout))
			defer cancel()
			reports[i] = nodeReport{Address: to}
			if err := reports[i].ask(bounded, self, peers); err != nil {
				reports[i].Error = err.Error()
			}
		})
	}
	asked.Wait()
	return reports
}

func (n *nodeReport) ask(ctx context.Context, self handshake.Hello, peers settings.PeerCredentials) error {
	options := append(transport.DialOptions(peers.Names.Credentials(peers.Client, "")), handshake.DialOptions(func() handshake.Hello { return self }, "", "")...)
	conn, err := grpc.NewClient(n.Address, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := nodev1.NewNodeServiceClient(conn).Report(ctx, &nodev1.ReportRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	n.Node, n.Epoch, n.Groups = answer.GetHello().GetNode(), answer.GetMapEpoch(), len(answer.GetGroups())
	n.report = shardmap.Report{Node: n.Node, Incarnation: answer.GetHello().GetIncarnation()}
	if len(answer.GetMap()) > 0 {
		m, err := shardmap.Decode(answer.GetMap())
		if err != nil {
			return err
		}
		n.report.Map = &m
	}
	for _, g := range answer.GetGroups() {
		n.report.Groups = append(n.report.Groups, wire.GroupOf(g))
	}
	return nil
}

// absentOf names the nodes of a map that did not report.
func absentOf(m *shardmap.Map, reports []shardmap.Report) []string {
	absent := []string{}
	for _, row := range m.Rows {
		for _, member := range row.Members {
			reported := slices.ContainsFunc(reports, func(r shardmap.Report) bool { return r.Node == member.Node })
			if !reported && !slices.Contains(absent, member.Node) {
				absent = append(absent, member.Node)
			}
		}
	}
	slices.Sort(absent)
	return absent
}

// misses reports whether a node did not report that is not said to be lost.
func (s *rescueSettings) misses(absent []string) bool {
	return slices.ContainsFunc(absent, func(node string) bool { return !slices.Contains(s.lost, node) })
}

func newestEpoch(reports []nodeReport) (epoch uint64) {
	for _, n := range reports {
		epoch = max(epoch, n.Epoch)
	}
	return epoch
}

// put replaces what etcd has, if that is older than what the nodes have seen. The store is opened as if no map had been seen, else it
// would refuse the older one that is there.
func (s *rescueSettings) put(ctx context.Context, m shardmap.Map, newest uint64, logger *slog.Logger) error {
	store, err := s.OpenStore(&s.PeerTLS, shardmap.Seen{}, logger)
	if err != nil {
		return err
	}
	defer store.Close()
	view, err := store.Load(ctx)
	if err != nil {
		return err
	}
	epoch := uint64(0)
	if present := view.Map; present != nil {
		if present.ID != m.ID {
			return fmt.Errorf("%w: etcd has a map of cluster %q with identity %s, the nodes are of %s; nothing is written",
				shardmap.ErrWrongCluster, present.Cluster, present.ID, m.ID)
		}
		if epoch = present.Epoch; epoch >= newest {
			return fmt.Errorf("etcd has epoch %d, and no node has seen a newer one than %d: there is nothing to rescue, and nothing is written", epoch, newest)
		}
	}
	return store.CompareAndSwap(ctx, epoch, m)
}

// show writes tables for people.
func (r *rescue) show(out io.Writer) error {
	var nodes [][]string
	for _, n := range r.Reports {
		said := "reported"
		if n.Error != "" {
			said = n.Error
		}
		nodes = append(nodes, []string{n.Address, display.OrDash(n.Node), strconv.FormatUint(n.Epoch, 10), strconv.Itoa(n.Groups), said})
	}
	if err := display.Table(out, "ADDRESS NODE EPOCH GROUPS ANSWER", nodes); err != nil || r.Map == nil {
		return err
	}
	var rows [][]string
	for shard, row := range r.Map.Rows {
		var members []string
		for _, m := range row.Members {
			members = append(members, fmt.Sprintf("%s:%d:%s", m.Node, m.RaftID, m.Role))
		}
		rows = append(rows, []string{strconv.Itoa(shard), strconv.FormatUint(uint64(row.Era), 10), strings.Join(members, " ")})
	}
	fmt.Fprintf(out, "\nCluster %s, %s, epoch %d, %d shards with %d copies\n\n", r.Map.Cluster, r.Map.ID, r.Map.Epoch, r.Map.Settings.Shards, r.Map.Settings.Replication)
	if err := display.Table(out, "SHARD ERA MEMBERS", rows); err != nil {
		return err
	}
	if len(r.Absent) > 0 {
		fmt.Fprintf(out, "\nThese nodes of the map did not report: %s\n", strings.Join(r.Absent, " "))
	}
	text := "\nOnly shown; --write puts this map into etcd.\n"
	if r.Written {
		text = "\nThe map is in etcd.\n"
	}
	_, err := io.WriteString(out, text)
	return err
}
