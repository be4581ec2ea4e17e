package client

import (
	"context"
	"strings"

	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Recovery describes what is left of a shard that has neither a leader nor a majority.
type Recovery struct {
	Shard     uint32      `json:"shard"`
	Copies    []ShardCopy `json:"copies"`
	WaitsFor  []string    `json:"waits_for"`   // nodes that may have more, and do not answer
	Best      string      `json:"best"`        // the node whose copy to go on from; empty: none has data
	Automatic bool        `json:"automatic"`   // it goes on by itself soon
	Lost      bool        `json:"lost"`        // no majority can come back, whoever does
	NewestMs  int64       `json:"newest_ms"`   // writes answered after it are lost, Unix time; 0: not known
	LossMsMax int64       `json:"loss_ms_max"` // writes are lost at most of so long before the power went; 0: nothing bounds it
}

// ShardCopy is a replica in a data folder.
type ShardCopy struct {
	Node    string `json:"node"`
	Role    string `json:"role"`    // full or witness; a witness has no data
	Relic   bool   `json:"relic"`   // it never votes again: its log may lack what it has acknowledged
	Unclear bool   `json:"unclear"` // nobody can say yet, or ever, what it has
	Era     uint32 `json:"era"`
	Term    uint64 `json:"term"`  // of its last entry
	Index   uint64 `json:"index"` // its last entry
}

// RecoverOptions select the shards that are to go on, and how.
type RecoverOptions struct {
	Shards     []uint32 // nil: all that need it
	DryRun     bool     // only say what would be done
	BeginEmpty bool     // shards of which no copy with data is there begin anew, empty
}

// Recover lets shards go on that have neither a leader nor a majority, each from the best
// copy that is there. What other copies had beyond it is lost. Errors: ErrRefused, for
// shards that can go on by themselves, or have no copy.
func (c *Client) Recover(ctx context.Context, options RecoverOptions) ([]Recovery, error) {
	var m *tickmeshv1.RecoverResponse
	err := c.callOnce(ctx, func(ctx context.Context, e *endpoint) (err error) {
		m, err = tickmeshv1.NewClusterServiceClient(e.conn).Recover(ctx, &tickmeshv1.RecoverRequest{
			Shards: options.Shards, DryRun: options.DryRun, BeginEmpty: options.BeginEmpty,
		})
		return errorOf(err)
	})
	if err != nil {
		return nil, err
	}
	recoveries := []Recovery{}
	for _, r := range m.GetRecoveries() {
		recoveries = append(recoveries, recoveryOf(r))
	}
	return recoveries, nil
}

func recoveryOf(r *tickmeshv1.ShardRecovery) Recovery {
	out := Recovery{
		Shard: r.GetShard(), Copies: []ShardCopy{}, WaitsFor: append([]string{}, r.GetWaitsFor()...), Best: r.GetBest(),
		Automatic: r.GetAutomatic(), Lost: r.GetLost(), NewestMs: r.GetNewestMs(), LossMsMax: r.GetLossMsMax(),
	}
	for _, c := range r.GetCopies() {
		out.Copies = append(out.Copies, ShardCopy{
			Node: c.GetNode(), Role: strings.ToLower(strings.TrimPrefix(c.GetRole().String(), "REPLICA_ROLE_")), Relic: c.GetRelic(),
			Unclear: c.GetUnclear(), Era: c.GetEra(), Term: c.GetTerm(), Index: c.GetIndex(),
		})
	}
	return out
}
