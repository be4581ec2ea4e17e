package compact

import (
	"math"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// failedJobs are the partitions of which a compaction failed last. It is not tried again for a
// while, so that it neither uses up the disk nor keeps others waiting.
type failedJobs struct {
	of map[segment.Partition]failedJob // at most as many as there are partitions
}

type failedJob struct {
	failures int
	untilMs  int64
}

// The wait for a partition after its compaction failed.
const (
	RetryDelayMin = time.Minute
	RetryDelayMax = time.Hour
)

func (f *failedJobs) note(p segment.Partition, nowMs int64) {
	if f.of == nil {
		f.of = map[segment.Partition]failedJob{}
	}
	wait := backoff.Exponential{Min: RetryDelayMin, Max: RetryDelayMax}
	failures := min(f.of[p].failures+1, math.MaxInt16)
	f.of[p] = failedJob{failures: failures, untilMs: nowMs + wait.Longest(failures).Milliseconds()}
}

// waits reports whether a partition is left alone at a time. A clock that went back by more
// than the longest wait ends all waits.
func (f *failedJobs) waits(p segment.Partition, nowMs int64) bool {
	untilMs := f.of[p].untilMs
	return nowMs < untilMs && untilMs-nowMs <= RetryDelayMax.Milliseconds()
}

func (f *failedJobs) forget(p segment.Partition) { delete(f.of, p) }
