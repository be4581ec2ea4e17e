package settings

import (
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
)

// Cluster are the settings that name a cluster, and what it is made with.
type Cluster struct {
	Name                string
	EtcdEndpoints       []string
	Shards, Replication Count // 0: what the cluster has, or the default for a new one
}

// Defaults of a new cluster.
const (
	ShardsDefault      = 128
	ShardsMax          = 4096               // of a data folder
	ClusterShardsMax   = shardmap.ShardsMax // of a cluster, whose map etcd has to take
	ReplicationDefault = 2
	ReplicationMax     = 3
	ClusterNameDefault = "tickmesh"
)

// Define defines all flags, below HeadingCluster.
func (s *Cluster) Define(f *pflag.FlagSet) {
	s.DefineStore(f)
	f.Var(&s.Shards, "shards", "shards of a new cluster; refused when the cluster has another number; 0: what it has, 128 if new")
	f.Var(&s.Replication, "replication", "copies of each shard in a new cluster, 1 to 3; refused when the cluster has another number; 0: what it has, 2 if new")
	Group(f, HeadingCluster, "shards", "replication")
}

// DefineStore defines the flags that say where the cluster's map is.
func (s *Cluster) DefineStore(f *pflag.FlagSet) {
	f.StringVar(&s.Name, "cluster", ClusterNameDefault, "`name` of the cluster; one etcd can hold several")
	f.StringSliceVar(&s.EtcdEndpoints, "etcd-endpoints", []string{"127.0.0.1:2379"}, "`addresses` of etcd, with commas between")
	Group(f, HeadingCluster, "cluster", "etcd-endpoints")
}

// ValidName reports whether a text can be the name of a cluster or a node.
func ValidName(text string) bool { return namePattern.MatchString(text) }

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Validate refuses names, numbers and endpoints that cannot be.
func (s *Cluster) Validate(v *Validation) {
	const name = "expected up to 63 small letters, digits and inner hyphens"
	if !ValidName(s.Name) {
		v.Refuse("cluster", s.Name, name)
	}
	if s.Shards != 0 {
		ValidateClusterShards(v, s.Shards)
	}
	if s.Replication != 0 {
		v.Between("replication", s.Replication, 1, ReplicationMax)
	}
	if len(s.EtcdEndpoints) == 0 {
		v.Refuse("etcd-endpoints", "", "expected at least one address")
	}
	for _, endpoint := range s.EtcdEndpoints {
		bare := strings.TrimPrefix(strings.TrimPrefix(endpoint, "http://"), "https://")
		if _, _, err := net.SplitHostPort(bare); err != nil {
			v.Refuse("etcd-endpoints", endpoint, "expected host:port")
		}
	}
}

// ValidateClusterShards refuses a number of shards whose map would not fit into a request to etcd.
func ValidateClusterShards(v *Validation, shards Count) {
	if shards < 1 || shards > ClusterShardsMax {
		v.Refuse("shards", shards.String(), fmt.Sprintf("expected 1 to %d in a cluster: etcd takes no larger shard map", ClusterShardsMax))
	}
}

// OpenStore connects to the placement store. Seen is the newest map that the process has seen.
func (s *Cluster) OpenStore(t *PeerTLS, seen shardmap.Seen, logger *slog.Logger) (shardmap.Store, error) {
	o := etcdstore.Options{Endpoints: s.EtcdEndpoints, Cluster: s.Name, Seen: seen}
	files, err := t.etcdTLS.Open(logger)
	if err != nil {
		return nil, err
	}
	if files != nil {
		o.Credentials = files.Credentials()
	}
	return etcdstore.Open(o)
}

// NewShards returns the number of shards of a cluster that does not exist yet.
func (s *Cluster) NewShards() Count {
	if s.Shards == 0 {
		return ShardsDefault
	}
	return s.Shards
}

// Check refuses settings that differ from those of the cluster.
func (s *Cluster) Check(m *shardmap.Map) error {
	if s.Shards != 0 && int(s.Shards) != m.Settings.Shards {
		return fmt.Errorf("--shards %d: cluster %q has %d shards, which cannot be changed; leave the flag out", s.Shards, s.Name, m.Settings.Shards)
	}
	if s.Replication != 0 && int(s.Replication) != m.Settings.Replication {
		return fmt.Errorf("--replication %d: cluster %q was made with %d; leave the flag out", s.Replication, s.Name, m.Settings.Replication)
	}
	return nil
}
