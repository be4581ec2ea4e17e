package years

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/cli"
	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/member"
	"github.com/tickmesh/tickmesh/node/service"
	"github.com/tickmesh/tickmesh/router/api"
	"github.com/tickmesh/tickmesh/router/api/apitest"
)

// serve starts the public gRPC API over a node.
func (y *Life) serve(n *node.Node) (*apitest.Server, error) {
	sharding := n.Sharding()
	return apitest.Start(api.Options{
		Writer: n, Resolver: n, Generation: n.Generation, Shards: sharding.Shards, ShardKey: sharding.Key, Source: n, Deleter: n,
		Snapshots: service.Snapshots{Node: n}, Cluster: &member.Standalone{Node: n}, ClusterName: member.StandaloneName, Version: "years",
		RawFrom: func(database, metric string) int64 {
			from, all := y.rules(y.Clock.NowMs()).RawFrom(database, metric, y.Clock.Now())
			if all {
				return math.MinInt64
			}
			return from.UnixMilli()
		},
	}, "")
}

// command runs a command of the product against a node.
func (y *Life) command(n *node.Node, args ...string) error {
	server, err := y.serve(n)
	if err != nil {
		return err
	}
	defer server.Stop()
	root := &cobra.Command{Use: "tickmesh", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(cli.Commands(nil, y.Clock.Now)...)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	root.SetArgs(append(args, "--addr", server.Address))
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := root.ExecuteContext(ctx); err != nil {
		return fmt.Errorf("tickmesh %v: %w", args, err)
	}
	return nil
}

// backUp makes two incremental backups, of which the second one has nothing to write, restores that into an empty node, and compares all
// answers of that one. Nothing is in doubt when it is called.
func (y *Life) backUp(n *node.Node) error {
	args := []string{"backup", y.BackupFolder, "--incremental"}
	// The second one finds all in the first: the load replaces nearly all of its data within a week.
	if err := errors.Join(y.command(n, args...), y.command(n, args...)); err != nil {
		return err
	}
	b, err := archive.Load(context.Background(), archive.NewFolder(y.BackupFolder), "")
	if err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	if m := &b.Manifest; m.Hours == 0 && y.day > 2*weekDays {
		return fmt.Errorf("%w: the backup %s has no rollups of hours", ErrWrong, m.Name)
	}
	if m := &b.Manifest; m.Written*10 > m.Bytes {
		return fmt.Errorf("%w: the backup %s wrote %d of its %d bytes, though nothing has changed since the last one", ErrWrong, m.Name, m.Written, m.Bytes)
	}
	y.counts.Backups++
	y.counts.BackupBytes += b.Manifest.Bytes
	y.counts.BackupWritten += b.Manifest.Written
	return y.restoreAndCompare()
}

// restoreAndCompare restores the newest backup. The node that it comes back to has the same rules, and a disk of its own.
func (y *Life) restoreAndCompare() (err error) {
	disk := newMemoryDisk()
	o := y.Options
	o.FS, o.DataDir, o.Sync = disk.FS(), disk.Dir(), node.SyncInterval
	o.Clock, o.Ticker, o.Logger = y.Clock.Now, y.Clock.Ticker, y.Logger
	o.Retention, o.Rules = y.retention(), y.currentRules
	n, err := node.Open(o)
	if err != nil {
		return fmt.Errorf("an empty node: %w", err)
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	y.Clock.AwaitDue() // cuts of raw are made before hours can be taken
	if err := y.command(n, "restore", y.BackupFolder); err != nil {
		return err
	}
	y.Clock.AwaitDue()
	if err := y.Oracle.checkSamples(alone{n}, false); err != nil {
		return fmt.Errorf("restored: %w", err)
	}
	now := y.Clock.NowMs()
	for _, metric := range metrics {
		if err := errors.Join(y.Oracle.checkWindows(alone{n}, metric, hourMs, now), y.Oracle.checkWindows(alone{n}, metric, dayMs, floorDay(now))); err != nil {
			return fmt.Errorf("restored: %w", err)
		}
	}
	if err := y.command(n, "restore", y.BackupFolder, "--verify"); err != nil {
		return err
	}
	y.counts.Restores++
	return nil
}

func (y *Life) retention() time.Duration { return retentionDays * 24 * time.Hour }
