package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

const headingCluster = "Cluster"

// clusterSettings name a cluster, and what it is made with.
type clusterSettings struct {
	cluster             string
	etcdEndpoints       []string
	shards, replication count // 0: what the cluster has, or the default for a new one
}

// Defaults of a new cluster.
const (
	shardsDefault      = 128
	replicationDefault = 2
	replicationMax     = 3
	clusterDefault     = "tickmesh"
)

func (s *clusterSettings) define(f *pflag.FlagSet) {
	s.defineStore(f)
	f.Var(&s.shards, "shards", "shards of a new cluster; refused when the cluster has another number; 0: what it has, 128 if new")
	f.Var(&s.replication, "replication", "copies of each shard in a new cluster, 1 to 3; refused when the cluster has another number; 0: what it has, 2 if new")
	group(f, headingCluster, "shards", "replication")
}

// defineStore defines the flags that say where the cluster's map is.
func (s *clusterSettings) defineStore(f *pflag.FlagSet) {
	f.StringVar(&s.cluster, "cluster", clusterDefault, "`name` of the cluster; one etcd can hold several")
	f.StringSliceVar(&s.etcdEndpoints, "etcd-endpoints", []string{"127.0.0.1:2379"}, "`addresses` of etcd, with commas between")
	group(f, headingCluster, "cluster", "etcd-endpoints")
}

var clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (s *clusterSettings) validate(v *validation) {
	const name = "expected up to 63 small letters, digits and inner hyphens"
	if !clusterName.MatchString(s.cluster) {
		v.refuse("cluster", s.cluster, name)
	}
	if s.shards != 0 {
		v.between("shards", s.shards, 1, shardsMax)
	}
	if s.replication != 0 {
		v.between("replication", s.replication, 1, replicationMax)
	}
	if len(s.etcdEndpoints) == 0 {
		v.refuse("etcd-endpoints", "", "expected at least one address")
	}
	for _, endpoint := range s.etcdEndpoints {
		bare := strings.TrimPrefix(strings.TrimPrefix(endpoint, "http://"), "https://")
		if _, _, err := net.SplitHostPort(bare); err != nil {
			v.refuse("etcd-endpoints", endpoint, "expected host:port")
		}
	}
}

// nodeIdentitySettings say which node a process is and where others reach it.
type nodeIdentitySettings struct {
	nodeID, zone, zoneFile string
	rpcAddr, advertiseAddr address
}

func (s *nodeIdentitySettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.nodeID, "node-id", "", "`name` of this node, unique in the cluster (default: the host's name)")
	s.rpcAddr = ":6190"
	f.Var(&s.rpcAddr, "rpc-addr", "where other nodes and routers connect; beyond the loopback it needs --rpc-tls-cert, or --insecure")
	f.Var(&s.advertiseAddr, "advertise-addr", "the address that they are told (default: the host's name and the port of --rpc-addr)")
	f.StringVar(&s.zone, "zone", "", "`name` of the place that fails together: a rack, a power strip, a zone")
	f.StringVar(&s.zoneFile, "zone-file", "", "`file` with the zone, instead of --zone; the node waits until it has text")
	group(f, headingCluster, "node-id", "rpc-addr", "advertise-addr", "zone", "zone-file")
}

func (s *nodeIdentitySettings) validate(v *validation) {
	if s.nodeID != "" && !clusterName.MatchString(s.nodeID) {
		v.refuse("node-id", s.nodeID, "expected up to 63 small letters, digits and inner hyphens")
	}
	if s.rpcAddr == "" {
		v.refuse("rpc-addr", "", "expected host:port")
	}
	if s.zone != "" && s.zoneFile != "" {
		v.refuse("zone-file", s.zoneFile, "expected either --zone or --zone-file")
	}
}

const zoneFileRetry = 500 * time.Millisecond

// readZone takes the zone from its file, which somebody may yet have to write.
func (s *nodeIdentitySettings) readZone(ctx context.Context, logger *slog.Logger) error {
	if s.zoneFile == "" {
		return nil
	}
	for told := false; ; told = true {
		text, err := os.ReadFile(s.zoneFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--zone-file: %w", err)
		}
		if s.zone = strings.TrimSpace(string(text)); s.zone != "" {
			break
		}
		if !told {
			logger.Info("waiting for the zone to be written", "file", s.zoneFile)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(zoneFileRetry):
		}
	}
	if !shardmap.ValidName(s.zone) {
		return fmt.Errorf("--zone-file %s: %q is not a valid name of a zone", s.zoneFile, s.zone)
	}
	return nil
}
