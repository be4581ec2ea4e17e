package node

import "github.com/tickmesh/tickmesh/node/commit"

func loopMetrics() []metric {
	of := func(name, help string, read func(*commit.Figures) int64) metric {
		return gauge(name, help, func(f *figures) float64 { return float64(read(f.loop)) })
	}
	return []metric{
		of("shards_quiet", "Replicas of groups where nothing happens.", func(c *commit.Figures) int64 { return c.Hibernated }),
		of("shards_stopped", "Replicas whose log contradicts what they had acknowledged. They have to be replaced.", func(c *commit.Figures) int64 { return c.Stopped }),
		of("shards_relic", "Replicas that take no part, since the log may lack what they had acknowledged: see Power.", func(c *commit.Figures) int64 { return c.Quarantined }),
		of("shards_orphan", "Shards with data of which the log has lost the group's state. They are not served.", func(c *commit.Figures) int64 { return c.Unclaimed }),
		of("shards_ending", "Replicas that have ended and whose data is being dropped.", func(c *commit.Figures) int64 { return c.Dropping }),
		of("shards_unsettled", "Groups led here whose configuration the shard map lacks.", func(c *commit.Figures) int64 { return c.Unpublished }),
		of("apply_lag_entries_max", "Entries that are committed and not applied, of the replica that has most.", func(c *commit.Figures) int64 { return c.LagEntries }),
		counter("shards_recovered_total", "Groups that had lost their majority and went on from the replica here.", func(f *figures) float64 { return float64(f.loop.Recovered) }),
		counter("inbox_dropped_total", "Envelopes of other nodes that were dropped because too many bytes waited.", func(f *figures) float64 { return float64(f.dropped) }),
		counter("shard_queue_rejected_total", "Writes refused because too many bytes waited for an entry of their shard.", func(f *figures) float64 { return float64(f.loop.Crowded) }),
		counter("handover_waits_total", "Times that writes of a shard waited until its lead was handed over.", func(f *figures) float64 { return float64(f.loop.HandoverWaits) }),
		counter("handover_wait_seconds_total", "Time that writes of shards waited until a lead was handed over.", func(f *figures) float64 { return float64(f.loop.HandoverWaitMs) / 1000 }),
		counter("handover_refused_total", "Writes that waited until a lead was handed over, and were refused here in the end: routers send them on to the new leader.", func(f *figures) float64 { return float64(f.loop.HandoverRefused) }),
	}
}
