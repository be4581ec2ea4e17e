package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
)

// backup copies samples from a cluster into an archive.
//
// It holds every write that was acknowledged before it began, and every delete: a unit is
// either read from the cluster after that, or taken from an earlier backup because a
// digest that the cluster made after that is the same as that of the unit's samples. Both
// are reads of a snapshot that was taken after that, so that of what is written or deleted
// meanwhile each shard has all up to one moment, and nothing behind it. A server that makes no
// snapshots is read as it is: these are reads that the leaders of the shards confirm, so they see all that was
// acknowledged before; a range that is not asked for had no samples then, and what is written or deleted meanwhile
// may be in it, or not.
type backup struct {
	client    *client.Client
	databases []string
	snapshot  string // empty: the server makes none
	keepEvery time.Duration
	archive   *archive.Writer
	progress  *progress
}

const (
	// snapshotTimeout bounds how long a backup waits for its snapshot while others are held.
	snapshotTimeout = 2 * time.Minute
	// snapshotEndTimeout bounds how long a backup, which may be about to begin again, tries to give its snapshot up.
	snapshotEndTimeout = 5 * time.Second
	// snapshotKeepEvery is after how long all parts of a snapshot are read again: several times in the minute after which a node
	// gives up a part that nobody reads where it holds as many as it may.
	snapshotKeepEvery = 15 * time.Second
)

// errNoSnapshot is why a backup is made without a snapshot.
type errNoSnapshot struct{ cause error }

func (e *errNoSnapshot) Error() string { return e.cause.Error() }

// takeSnapshot takes the snapshot that is read. Errors: an *errNoSnapshot where the server cannot make one.
func (b *backup) takeSnapshot(ctx context.Context) (err error) {
	if len(b.databases) == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	b.snapshot, err = b.client.TakeSnapshot(bounded, b.databases)
	switch {
	case errors.Is(err, client.ErrRefused), errors.Is(err, client.ErrVersion), errors.Is(err, client.ErrReadOnly):
		return &errNoSnapshot{err}
	case err != nil:
		return fmt.Errorf("take a snapshot: %w", err)
	}
	return nil
}

// endSnapshot gives the snapshot up. If that fails, it ends by itself.
func (b *backup) endSnapshot(ctx context.Context) error {
	if b.snapshot == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), snapshotEndTimeout)
	defer cancel()
	return b.client.EndSnapshot(ctx, b.snapshot)
}

// copyFromSnapshot is run while all parts of the snapshot are kept. Errors: client.ErrNotFound as soon as one is lost, also while
// another one is read.
func (b *backup) copyFromSnapshot(ctx context.Context, startedMs int64) (m *archive.Manifest, taken int, err error) {
	if b.snapshot == "" {
		return b.run(ctx, startedMs)
	}
	reading, lose := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { b.keepSnapshot(reading, lose) })
	m, taken, err = b.run(reading, startedMs)
	lost := context.Cause(reading)
	lose(nil)
	keeping.Wait()
	if err != nil && errors.Is(lost, client.ErrNotFound) {
		err = lost
	}
	return m, taken, err
}

// keepSnapshot reads a name of all parts of the snapshot now and then, until ctx ends: a scan, or the target, may take longer than nodes
// keep a part that nobody reads. Failures other than that a part is lost are left to the reads of the backup.
func (b *backup) keepSnapshot(ctx context.Context, lose context.CancelCauseFunc) {
	ticker := time.NewTicker(b.keepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		bounded, cancel := context.WithTimeout(ctx, snapshotKeepEvery)
		_, err := b.client.Databases(bounded, client.Names{Limit: 1, Snapshot: b.snapshot})
		cancel()
		if errors.Is(err, client.ErrNotFound) {
			lose(err)
			return
		}
	}
}

// run copies everything, and returns how many units were taken from earlier backups.
func (b *backup) run(ctx context.Context, startedMs int64) (m *archive.Manifest, taken int, err error) {
	names, err := metricsOf(ctx, b.client, b.databases, b.snapshot)
	if err != nil {
		return nil, 0, err
	}
	recentMs := startOf(startedMs, periodMs) - periodMs
	series := int64(0)
	var all []archive.Wanted
	for _, name := range names {
		d, err := readForBackup(ctx, b.client, name, b.snapshot)
		if err != nil {
			return nil, 0, fmt.Errorf("digests of metric %q of database %q: %w", name.metric, name.database, err)
		}
		series += int64(len(d.series))
		all = append(all, d.wanted(name, recentMs)...)
	}
	sortWanted(all)
	left := b.archive.Take(all)
	b.progress.addDone(samplesOf(all) - samplesOf(left))
	b.progress.setTotal(samplesOf(all))
	for i := range left {
		err := b.unit(ctx, &left[i])
		// A day before raw has ended a day ago, so that without a snapshot nothing is taken for it that is just being written.
		if err == nil && left[i].Thinned && left[i].FromMs < startedMs-dayMs {
			err = b.hours(ctx, &left[i])
		}
		if err != nil {
			return nil, 0, fmt.Errorf("metric %q of database %q: %w", left[i].Metric, left[i].Database, err)
		}
		b.progress.addDone(left[i].Samples)
	}
	m, err = b.archive.Finish(ctx, series)
	return m, len(all) - len(left), err
}

func samplesOf(list []archive.Wanted) (n int64) {
	for i := range list {
		n += list[i].Samples
	}
	return n
}

// unit copies one unit, or parts of it where the whole meets a limit of the server.
func (b *backup) unit(ctx context.Context, w *archive.Wanted) error {
	name := metricName{w.Database, w.Metric}
	return inHalves(ctx, timeRange{w.FromMs, w.ToMs}, func(r timeRange) error {
		return again(ctx, func() error {
			return b.archive.Unit(ctx, name.database, name.metric, r.from, r.to, func(visit archive.Visitor) error {
				return readSamples(ctx, b.client, name, r, b.snapshot, visit, b.progress)
			})
		})
	})
}

func readSamples(ctx context.Context, c *client.Client, name metricName, r timeRange, snapshot string, visit archive.Visitor, p *progress) error {
	query := client.Query{Selector: scan.Selector{Database: name.database, Metric: name.metric}, FromMs: r.from, ToMs: r.to}
	query.Snapshot = snapshot
	for chunk, err := range c.Query(ctx, query) {
		if err != nil {
			return err
		}
		if err := visit(chunk.Series.Key(), chunk.TimesMs, chunk.Values); err != nil {
			return err
		}
		p.addSamples(int64(len(chunk.TimesMs)))
	}
	return nil
}
