package command

import (
	"time"

	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Creation returns what a new cluster is made with. Without a number of nodes it waits for
// those that copies and witness need, and after a while does without the witness: shards
// that are placed on the first nodes that come have to move at once, and a node that is lost
// meanwhile takes their majority with it.
func Creation(s *settings.Cluster, initialNodes settings.Count, wait settings.Duration) shardmap.Creation {
	replication := s.Replication
	if replication == 0 {
		replication = settings.ReplicationDefault
	}
	c := shardmap.Creation{
		Cluster: s.Name, Settings: shardmap.Settings{Shards: int(s.NewShards()), Replication: int(replication)}, InitialNodes: int(initialNodes),
	}
	if initialNodes == 0 {
		c.InitialNodes, c.LeastNodes, c.WaitMs = shardmap.VotersNeeded(int(replication)), int(replication), time.Duration(wait).Milliseconds()
	}
	return c
}
