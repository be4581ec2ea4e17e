package node

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// loopCounts are figures that only the loop knows, as of the last look at all of them.
type loopCounts struct {
	quiet, stopped, relics, orphans, ending, unsettled atomic.Int64
	lagEntries                                         atomic.Int64
	recovered                                          atomic.Int64 // groups, since the start
}

// count brings the figures up to date.
func (l *loop) count() {
	var quiet, stopped, orphans, ending, lag int64
	for _, shard := range l.host.Shards() {
		status, err := l.host.Status(shard)
		if err != nil {
			continue
		}
		quiet += oneOf(status.Quiet)
		stopped += oneOf(status.Fault != nil)
		if applied := l.applied[shard].value.Load(); status.Role != shardmap.Witness && status.Commit > applied {
			lag = max(lag, int64(status.Commit-applied))
		}
	}
	for shard := range l.cleaning {
		orphans += oneOf(l.orphans[shard])
		ending += oneOf(l.cleaning[shard])
	}
	c := &l.counts
	c.quiet.Store(quiet)
	c.stopped.Store(stopped)
	c.relics.Store(int64(len(l.relics)))
	c.orphans.Store(orphans)
	c.ending.Store(ending)
	c.lagEntries.Store(lag)
}

func oneOf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func loopMetrics() []metric {
	of := func(name, help string, read func(*loopCounts) *atomic.Int64) metric {
		return gauge(name, help, func(f *figures) float64 { return float64(read(f.loop).Load()) })
	}
	return []metric{
		of("shards_quiet", "Replicas of groups where nothing happens.", func(c *loopCounts) *atomic.Int64 { return &c.quiet }),
		of("shards_stopped", "Replicas whose log contradicts what they had acknowledged. They have to be replaced.", func(c *loopCounts) *atomic.Int64 { return &c.stopped }),
		of("shards_relic", "Replicas that take no part, since the log may lack what they had acknowledged: see Power.", func(c *loopCounts) *atomic.Int64 { return &c.relics }),
		of("shards_orphan", "Shards with data of which the log has lost the group's state. They are not served.", func(c *loopCounts) *atomic.Int64 { return &c.orphans }),
		of("shards_ending", "Replicas that have ended and whose data is being dropped.", func(c *loopCounts) *atomic.Int64 { return &c.ending }),
		of("shards_unsettled", "Groups led here whose configuration the shard map lacks.", func(c *loopCounts) *atomic.Int64 { return &c.unsettled }),
		of("apply_lag_entries_max", "Entries that are committed and not applied, of the replica that has most.", func(c *loopCounts) *atomic.Int64 { return &c.lagEntries }),
		counter("shards_recovered_total", "Groups that had lost their majority and went on from the replica here.", func(f *figures) float64 { return float64(f.loop.recovered.Load()) }),
		counter("inbox_dropped_total", "Envelopes of other nodes that were dropped because too many bytes waited.", func(f *figures) float64 { return float64(f.dropped) }),
		counter("shard_queue_rejected_total", "Writes refused because too many bytes waited for an entry of their shard.", func(f *figures) float64 { return float64(f.commit.crowded.Load()) }),
	}
}
