package node

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	maintainInterval   = 200 * time.Millisecond
	retentionInterval  = time.Minute
	compactionInterval = 30 * time.Second
	failureDelayMax    = time.Minute
	// roomDelayMax is how long writes wait at most behind the moment when a full disk has room again. To look costs little.
	roomDelayMax = time.Second
)

// maintain does what of its tasks is due, one thing after the other. There are
// two such loops: merging segments may take minutes, and neither the log nor the
// page log may wait for it.
func (n *Node) maintain(ctx context.Context, ticks <-chan time.Time, tasks []task) {
	for {
		n.noteBroken()
		for i := range tasks {
			if ctx.Err() != nil {
				return
			}
			n.attempt(ctx, &tasks[i])
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

// task is one kind of maintenance.
type task struct {
	name  string
	due   func(now time.Time, last time.Time) bool
	run   func(ctx context.Context) error
	last  time.Time     // of the last success
	retry time.Time     // not before, after a failure
	delay time.Duration // between failures
	// delayMax bounds that; 0: failureDelayMax.
	delayMax time.Duration
	told     time.Time     // no failure is logged again before it
	silence  time.Duration // between failures that are logged
}

// pageTasks keep the log and the page log short.
func (n *Node) pageTasks() []task {
	return []task{
		{name: "memory", due: func(_, _ time.Time) bool { return n.options.Memory.SeriesBytes > 0 }, run: func(context.Context) error {
			n.engine.KeepWithinMemory()
			return nil
		}},
		{name: "resume", due: func(_, _ time.Time) bool { return n.loop.refusals.stalled.Load() != nil }, run: n.heal, delayMax: roomDelayMax},
		{name: "snapshots", due: func(now, _ time.Time) bool { return n.snapshotsLapse(now) }, run: n.lapseSnapshots},
		{name: "checkpoint", due: func(_, _ time.Time) bool {
			return n.logSinceCheckpoint() >= n.options.CheckpointBytes
		}, run: func(context.Context) error { return n.boundLog(n.checkpoint()) }},
		{name: "flush", last: n.options.Clock(), due: n.flushDue, run: func(context.Context) error { return n.flush() }},
	}
}

// segmentTasks keep the segments few and young.
func (n *Node) segmentTasks() []task {
	return []task{
		{name: "retention", due: func(now, last time.Time) bool {
			return (n.options.Retention > 0 || n.rules().SaysRetention()) && now.Sub(last) >= min(retentionInterval, n.options.FlushInterval)
		}, run: n.retain},
		{name: "thin", due: func(now, last time.Time) bool {
			return (n.rules().SaysRaw() || n.engine.LetsThin() || n.peers.any(thinsKept)) && now.Sub(last) >= min(retentionInterval, n.options.FlushInterval)
		}, run: n.thin},
		{name: "forget", last: n.options.Clock(), due: n.forgetDue, run: n.forget},
		{name: "compaction", due: n.flushed.compactionDue, run: n.compact},
	}
}

// A page log of flushIdleBytes that has not grown for flushIdle is flushed before
// its time: nothing else needs the disk, and segments are faster to read.
const (
	flushIdleBytes = 16 << 20
	flushIdle      = 2 * time.Second
)

func (n *Node) flushDue(now, last time.Time) bool {
	count, bytes := n.engine.Generations()
	if bytes != n.idle.bytes {
		n.idle.bytes, n.idle.since = bytes, now
	}
	idle := bytes >= flushIdleBytes && now.Sub(n.idle.since) >= flushIdle
	return count > 1 || idle || bytes > 0 && now.Sub(last) >= n.options.FlushInterval
}

func (n *Node) flush() error {
	n.setRetention()
	count, _ := n.engine.Generations()
	if err := n.engine.Flush(); err != nil {
		return err
	}
	n.flushed.add(int64(count), n.options.Clock())
	return nil
}

// Segments are merged when no flush has brought more for compactionIdle, so that
// those of a busy time are merged together and writers keep the processor; but not
// later than after compactionFlushes, as queries look at each segment.
const (
	compactionIdle    = 2 * time.Second
	compactionFlushes = 16
)

// attempt runs a task that is due; one that fails waits twice as long each time.
func (n *Node) attempt(ctx context.Context, t *task) {
	now := n.options.Clock()
	if now.Before(t.last) {
		t.last = now // the clock was set back, perhaps by years
	}
	if now.Before(t.retry) && t.retry.Sub(now) <= failureDelayMax || !t.due(now, t.last) {
		return
	}
	err := t.run(ctx)
	if err == nil {
		t.last, t.delay, t.retry, t.silence, t.told = now, 0, time.Time{}, 0, time.Time{}
		return
	}
	if ctx.Err() != nil {
		return
	}
	t.delay = min(max(2*t.delay, maintainInterval), cmp.Or(t.delayMax, failureDelayMax))
	now = n.options.Clock()
	t.retry = now.Add(t.delay)
	if now.Before(t.told) && t.told.Sub(now) <= failureDelayMax {
		return
	}
	t.silence = min(max(2*t.silence, maintainInterval), failureDelayMax)
	t.told = now.Add(t.silence)
	n.logger.Error("maintenance failed and will be tried again", "task", t.name, "after", t.delay, "error", err)
}

// stopping reports whether the node closes.
func (n *Node) stopping() bool { return n.running.Err() != nil }

// logCheckpointsMax bounds the log, and so the time of a restart: with so many
// times CheckpointBytes since the last checkpoint, writes wait for the next one.
const logCheckpointsMax = 8

// boundLog refuses writes when checkpoints have failed for long.
func (n *Node) boundLog(err error) error {
	if err != nil && n.logIsLong() {
		n.loop.refusals.stall(fmt.Errorf("the log has %d bytes since the last checkpoint, and the next one fails: %w",
			n.logSinceCheckpoint(), err))
	}
	return err
}

func (n *Node) logIsLong() bool {
	return n.logSinceCheckpoint()/logCheckpointsMax >= n.options.CheckpointBytes
}

// logSinceCheckpoint returns the bytes of log since the present epoch began.
func (n *Node) logSinceCheckpoint() int64 {
	return int64(n.log.End()) - int64(n.checkpoints.reached.Load())
}

// CompactAll seals all hot pages, turns the page log into segments, does all
// compactions that are due and those that take what was deleted from the disk, and gives back the
// log that is no longer needed.
func (n *Node) CompactAll(ctx context.Context) error {
	if err := n.sealEverything(); err != nil {
		return err
	}
	if err := n.flush(); err != nil {
		return err
	}
	n.engine.PurgeDeleted()
	return n.compact(ctx)
}

// setRetention passes to the engine how long samples are kept, which its partitions follow.
func (n *Node) setRetention() {
	now := n.options.Clock()
	n.engine.KeepFor(planRetention(n.rules().RetentionRules(), n.options.Retention, now).keepMs(now))
}

func (n *Node) compact(ctx context.Context) error {
	n.setRetention()
	for !n.stopping() {
		did, err := n.engine.Compact(ctx, n.options.Clock().UnixMilli())
		if err != nil || !did {
			return err
		}
	}
	return nil
}

// heal applies what has stalled, and takes writes again if that was all.
func (n *Node) heal(context.Context) error {
	if err := n.engine.Resume(); err != nil {
		return err
	}
	if n.logIsLong() {
		if err := n.checkpoint(); err != nil {
			return err
		}
	}
	n.loop.refusals.stalled.Store(nil)
	// An entry may have stalled since Resume, when the refusal was there still.
	if err := n.engine.Resume(); err != nil {
		n.loop.refusals.stall(err)
		return err
	}
	_ = n.loop.queue.do(n.loop.resumed) // not run, the log is broken, and reads say so
	n.logger.Info("storage takes writes again")
	return nil
}

// syncLog makes the log durable once in a while.
func (n *Node) syncLog(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if _, err := n.log.Sync(); err != nil {
			n.loop.logFailed(err) //nolint:errcheck // it keeps and tells the error
			if n.options.NodeID != aloneID {
				// It takes no part in its groups any more. Otherwise its beats would keep it the
				// leader of those that hibernate, which could not be written until it is restarted.
				n.loop.syncer.fail(err)
			}
			return
		}
	}
}
