package auditor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/transport"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// digestTimeout bounds one call of one node.
const digestTimeout = 10 * time.Second

// Node is a node that runs: its id and its RPC address.
type Node struct{ ID, Address string }

// replicaDigest is what one full voter says of its shard.
type replicaDigest struct {
	shard   int
	node    string
	applied uint64
	digest  []byte
}

// compareDigests finds shards whose replicas have applied the same entries and hold
// different data. Waiting says why not all could be compared: replicas that have not
// applied what others have; "" if all could.
func compareDigests(digests []replicaDigest) (compared int64, waiting string, err error) {
	byShard := map[int][]replicaDigest{}
	for _, d := range digests {
		byShard[d.shard] = append(byShard[d.shard], d)
	}
	var different, behind []string
	for shard, replicas := range byShard {
		for i, a := range replicas {
			for _, b := range replicas[:i] {
				switch {
				case a.applied != b.applied:
					behind = append(behind, fmt.Sprintf("shard %d: %s has applied %d, %s %d", shard, a.node, a.applied, b.node, b.applied))
				case !bytes.Equal(a.digest, b.digest):
					different = append(different, fmt.Sprintf("shard %d: %s and %s have applied %d entries and hold different data", shard, a.node, b.node, a.applied))
				default:
					compared++
				}
			}
		}
	}
	slices.Sort(behind)
	if len(different) > 0 {
		err = fmt.Errorf("%w: digests of full voters:\n  %s", ErrBroken, strings.Join(different, "\n  "))
	}
	return compared, strings.Join(behind, "; "), err
}

// CheckDigests stops the clients and compares what the full voters of each shard on
// the nodes hold, once they have applied the same entries, for which it waits while they apply
// some. Nodes that do not run are left out. Errors: ErrBroken, ErrStalled, those of
// the store.
func (a *Audit) CheckDigests(ctx context.Context, store shardmap.Store, cluster string, nodes []Node) error {
	a.Hold()
	defer a.Release()
	var stands standstill[string]
	for {
		compared, waiting, err := readDigests(ctx, store, cluster, nodes)
		switch {
		case errors.Is(err, ErrBroken):
			a.tally.find(err)
			return err
		case err == nil && waiting == "":
			a.tally.digested(compared)
			return nil
		case err == nil:
			err = errors.New(waiting)
		}
		if stands.tooLong(time.Now(), err.Error()) || !wait(ctx, checkPause) {
			return fmt.Errorf("%w: digests: %w", ErrStalled, errors.Join(err, ctx.Err()))
		}
	}
}

// readDigests asks all full voters of all shards once.
func readDigests(ctx context.Context, store shardmap.Store, cluster string, nodes []Node) (compared int64, waiting string, err error) {
	view, err := store.Load(ctx)
	if err != nil {
		return 0, "", err
	}
	if view.Map == nil {
		return 0, "", errors.New("there is no shard map yet")
	}
	var digests []replicaDigest
	for _, node := range nodes {
		of, err := nodeDigests(ctx, view.Map, cluster, node)
		if err != nil {
			return 0, "", fmt.Errorf("node %s: %w", node.ID, err)
		}
		digests = append(digests, of...)
	}
	return compareDigests(digests)
}

// nodeDigests asks one node about the shards of which it is a full voter.
func nodeDigests(ctx context.Context, m *shardmap.Map, cluster string, node Node) ([]replicaDigest, error) {
	client, closeConn, err := dialNode(m, cluster, node)
	if err != nil {
		return nil, err
	}
	defer closeConn()
	var digests []replicaDigest
	for _, placed := range m.MembersOn(node.ID) {
		if placed.Role != shardmap.Full || !placed.Published {
			continue
		}
		answer, err := callDigest(ctx, client, placed.Shard)
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w", placed.Shard, err)
		}
		digests = append(digests, replicaDigest{int(placed.Shard), node.ID, answer.GetAppliedIndex(), answer.GetDigest()})
	}
	return digests, nil
}

func callDigest(ctx context.Context, client nodev1.NodeServiceClient, shard uint16) (*nodev1.DigestResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, digestTimeout)
	defer cancel()
	return client.Digest(ctx, &nodev1.DigestRequest{Shard: uint32(shard), FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax})
}

// dialNode opens a connection as a tool of the cluster.
func dialNode(m *shardmap.Map, cluster string, node Node) (client nodev1.NodeServiceClient, closeConn func(), err error) {
	hello := handshake.New(cluster, m.ID, "", "", rand.Uint64())
	options := append(transport.DialOptions(nil), handshake.DialOptions(func() handshake.Hello { return hello }, node.ID, "")...)
	conn, err := grpc.NewClient("passthrough:///"+node.Address, options...)
	if err != nil {
		return nil, nil, err
	}
	return nodev1.NewNodeServiceClient(conn), func() { _ = conn.Close() }, nil
}

// Leads asks the nodes how many shards each leads. A node that does not answer is
// left out.
func Leads(ctx context.Context, store shardmap.Store, cluster string, nodes []Node) (map[string]int, error) {
	view, err := store.Load(ctx)
	if err != nil {
		return nil, err
	}
	if view.Map == nil {
		return nil, errors.New("there is no shard map yet")
	}
	leads := map[string]int{}
	for _, node := range nodes {
		client, closeConn, err := dialNode(view.Map, cluster, node)
		if err != nil {
			return nil, err
		}
		bounded, cancel := context.WithTimeout(ctx, digestTimeout)
		report, err := client.Report(bounded, &nodev1.ReportRequest{WithoutMap: true})
		cancel()
		closeConn()
		if err != nil {
			continue
		}
		for _, group := range report.GetGroups() {
			if group.GetLeads() {
				leads[node.ID]++
			}
		}
	}
	return leads, nil
}
