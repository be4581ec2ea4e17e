package scale

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/agent"
	"github.com/tickmesh/tickmesh/node/replica"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/fanout"
	"github.com/tickmesh/tickmesh/router/placement"
)

// Beats are what one node sends another, with envelopes as replica.Host makes them; TCP, TLS and HTTP/2 are not counted.
type Beats struct {
	PerSecond    float64 // envelopes, whatever the number of groups
	RestingBytes float64 // a second, when all groups hibernate
	GroupBytes   float64 // a second, for each group led that does not
}

// noLog is the log of hosts in which nothing is read again.
type noLog struct{}

func (noLog) Entries(uint16, uint64, uint64, int) ([]replica.Entry, error) {
	return nil, errors.New("nothing is kept")
}

// MeasureBeats has two hosts share groups, at rest and awake.
func MeasureBeats() (Beats, error) {
	const groups = 200
	resting, envelopes, err := beat(groups, 0)
	if err != nil {
		return Beats{}, err
	}
	awake, _, err := beat(groups, 1<<30)
	if err != nil {
		return Beats{}, err
	}
	return Beats{PerSecond: envelopes, RestingBytes: resting, GroupBytes: (awake - resting) / groups}, nil
}

// beat returns the bytes and envelopes a second from a node that leads groups to one that follows, long after the
// last write. Groups hibernate after ticks of idleness; 0: the default.
func beat(groups, hibernateTicks int) (bytes, envelopes float64, err error) {
	names := [2]string{nodeName(0), nodeName(1)}
	members := []shardmap.Member{}
	for i, name := range names {
		members = append(members, shardmap.Member{Node: name, Incarnation: randomDigits(name), RaftID: uint64(i + 1), Role: shardmap.Full})
	}
	var hosts [2]*replica.Host
	for i := range hosts {
		if hosts[i], err = replica.New(replica.Config{Node: names[i], Incarnation: randomDigits(names[i]), Run: uint64(1)<<60 + uint64(i), Seed: uint64(i), HibernateTicks: hibernateTicks}, noLog{}); err != nil {
			return 0, 0, err
		}
		for shard := range groups {
			if err := hosts[i].Create(replica.Replica{Shard: uint16(shard), RaftID: uint64(i + 1), Era: 1, Role: shardmap.Full}, members); err != nil {
				return 0, 0, err
			}
		}
	}
	const settleTicks, countTicks = 400, 400
	sent, count := 0, 0
	for tick := range settleTicks + countTicks {
		hosts[0].Tick()
		hosts[1].Tick()
		for busy := true; busy; {
			busy = false
			for i, host := range hosts {
				var round replica.Round
				if !host.Ready(&round) {
					continue
				}
				busy = true
				host.Advance(&round)
				for _, c := range round.Committed {
					host.Applied(c.Shard, c.Index)
				}
				for _, list := range [][]replica.Outgoing{round.Early, round.Late} {
					for _, out := range list {
						if tick >= settleTicks {
							sent, count = sent+len(out.Bytes), count+1
						}
						if err := hosts[1-i].Receive(names[i], out.Bytes); err != nil {
							return 0, 0, err
						}
					}
				}
			}
		}
	}
	seconds := (countTicks * node.TickInterval).Seconds() * 2 // both send
	return float64(sent) / seconds, float64(count) / seconds, nil
}

// Traffic is what follows from a placement for etcd, nodes and routers.
type Traffic struct {
	Keys            int     // of etcd
	EntriesPerS     float64 // nodes' entries that are written without a change
	EntryBytesPerS  float64 // that etcd sends to all watchers for them
	RenewalsPerS    float64 // of leases, by etcd's client: three in a lease
	ProbesPerS      float64 // questions of watches
	MapWatchBytes   float64 // that one change of the map sends to all watchers
	ReportBytesPerS float64 // of the reports that the elected router asks for
	PeersMost       int     // nodes that one shares groups with
	PairsAll        int     // pairs of nodes that share groups, each way
	RestingPerS     float64 // envelopes in the cluster when all hibernate
	RestingBytes    float64 // of these, a second
	ActiveBytes     float64 // a second, when no group hibernates
	RouterConns     int     // of one router, at rest
	RouterConnsMost int
	NodesAsked      int // by a query over all series
	AskedInTurns    int // so many at once at most: turns that this takes
}

// TrafficOf computes it for a number of routers.
func TrafficOf(p *Placement, b Beats, routers int) (Traffic, error) {
	entry, err := json.Marshal(infoOf(p.Nodes - 1))
	if err != nil {
		return Traffic{}, err
	}
	watchers := float64(p.Nodes + routers)
	update := float64(p.Nodes) / agent.UpdateInterval.Seconds()
	const elections, mapKeys, renewalsInLease = 2, 1, 3
	t := Traffic{
		Keys:           2*p.Nodes + mapKeys + elections*routers,
		EntriesPerS:    update,
		EntryBytesPerS: update * float64(len(entry)) * watchers,
		RenewalsPerS:   (float64(p.Nodes) + elections*float64(routers)) * renewalsInLease / etcdstore.LeaseTTLDefault.Seconds(),
		ProbesPerS:     watchers / etcdstore.ProbeIntervalDefault.Seconds(),
		MapWatchBytes:  watchers * float64(p.MapBytes),
		RouterConns:    p.Nodes, RouterConnsMost: p.Nodes * fanout.LanesMax,
	}
	peers := map[string]map[string]bool{}
	asked := map[string]bool{}
	reports, groups := 0, 0
	for shard, row := range p.Map.Rows {
		asked[row.Members[shard%len(row.Members)].Node] = true
		groups += len(row.Members) - 1
		for _, a := range row.Members {
			reports += reportBytes(uint32(shard), a, row.Members)
			for _, other := range row.Members {
				if a.Node == other.Node {
					continue
				}
				if peers[a.Node] == nil {
					peers[a.Node] = map[string]bool{}
				}
				peers[a.Node][other.Node] = true
			}
		}
	}
	for _, others := range peers {
		t.PairsAll += len(others)
		t.PeersMost = max(t.PeersMost, len(others))
	}
	t.ReportBytesPerS = float64(reports) / placement.TickInterval.Seconds()
	t.RestingPerS = float64(t.PairsAll) * b.PerSecond
	t.RestingBytes = float64(t.PairsAll) * b.RestingBytes
	t.ActiveBytes = t.RestingBytes + 2*float64(groups)*b.GroupBytes
	t.NodesAsked = len(asked)
	t.AskedInTurns = (t.NodesAsked + fanout.ReadCallsDefault - 1) / fanout.ReadCallsDefault
	return t, nil
}

// reportBytes returns the size of a node's report about one replica.
func reportBytes(shard uint32, of shardmap.Member, members []shardmap.Member) int {
	const index = 1 << 20
	g := &nodev1.GroupReport{
		Shard: shard, RaftId: of.RaftID, Role: tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL, Era: 1, Leader: members[0].Node, Term: 3,
		LastIndex: index, LastTerm: 3, CommitIndex: index, AppliedIndex: index, TruncatedIndex: index, MembersIndex: 1, Bytes: 1 << 30,
		NewestMs: int64(time.Hour / time.Millisecond),
	}
	for _, m := range members {
		g.Members = append(g.Members, &tickmeshv1.ReplicaStatus{Node: m.Node, Incarnation: m.Incarnation, RaftId: m.RaftID, Role: tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL})
	}
	return proto.Size(&nodev1.ReportResponse{Groups: []*nodev1.GroupReport{g}})
}

// String describes the beats.
func (b Beats) String() string {
	return fmt.Sprintf("%.0f envelopes a second, %.0f bytes a second at rest, %.0f more for each group that does not rest", b.PerSecond, b.RestingBytes, b.GroupBytes)
}
