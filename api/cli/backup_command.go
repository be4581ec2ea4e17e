package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/settings"
)

func newBackupCommand(start VerificationServer, now func() time.Time) *cobra.Command {
	objectBytes := settings.Bytes(archive.ObjectBytesDefault)
	var target targetSettings
	var name string
	var incremental bool
	var databases []string
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		store, err := target.open(cmd.Flags().Arg(0))
		if err != nil {
			return settings.WithHelp(cmd, err)
		}
		m, err := runBackup(cmd, c, store, databases, archive.WriterOptions{Name: name, Incremental: incremental, ObjectBytes: int64(objectBytes), Now: now})
		if err != nil {
			return err
		}
		return target.writeReport(reportOf(m))
	}}
	s.check = func(v *settings.Validation) {
		target.Validate(v)
		target.keySettings.Validate(v, incremental)
		v.SizeBetween("object-bytes", objectBytes, 1, archive.ObjectBytesMax)
		if name != "" && archive.CheckName(name) != nil {
			v.Refuse("name", name, "expected small letters, digits, and - . _ inside")
		}
	}
	cmd := s.prepare(&cobra.Command{
		Use: "backup TARGET", Short: "Write all samples to a folder or a bucket, for `tickmesh restore`", Args: cobra.ExactArgs(1),
		Long: `Writes all samples of all databases to a target, every bit of them, while the cluster works on. The
target is a folder, or s3://bucket/prefix of S3-compatible storage, and can have many backups, also
of several clusters.
Every write and delete that was acknowledged before the backup began is in it; of later ones, some
may be. Of hours that are older than raw of the file of databases it has the last sample, and what
windows of the hour tell of all. All is read from a snapshot, which is taken at the beginning:
each shard is in the backup as it was at one moment then. When a node that holds a part of it
ends, or does not answer, the backup starts again, and after three times is made without a
snapshot, as it is where a node of an older version cannot make one. With --incremental only what
has changed since the last complete backup is read and written; each backup stands for itself all
the same, and others can be deleted. A backup that was cut short, however it was, goes on when the
command is started again.

With --encrypt-to all of it can be read only with an identity of one of the recipients; to go on
with one, or --incremental, needs --identity too. With --sign-key, whoever reads it with
--verify-key notices every change, also by others who can write to the target.

` + "`tickmesh backup list`, `verify` and `prune`" + ` look at the backups of a target.`,
		Example: `  tickmesh backup --addr router:6183 /backups
  tickmesh backup --addr router:6183 --incremental --s3-endpoint https://s3:9000 s3://bucket/prefix
  tickmesh backup --addr router:6183 --encrypt-to age1… --sign-key backup.pem /backups`,
	})
	cmd.Flags().StringVar(&name, "name", "", "`name` of the backup (default: the time, as 20261121t164200z; or that of one that was cut short)")
	cmd.Flags().BoolVar(&incremental, "incremental", false, "take what has not changed from the last complete backup")
	cmd.Flags().Var(&objectBytes, "object-bytes", "size from which on a new object is begun; it is held in memory")
	cmd.Flags().StringSliceVar(&databases, "databases", nil, "`names` of the databases to back up, with commas between (default: all, each of which has to be readable)")
	target.defineWriting(cmd.Flags())
	target.Define(cmd.Flags())
	cmd.AddCommand(newBackupListCommand(), newBackupVerifyCommand(start), newBackupPruneCommand())
	return cmd
}

const backupNameLayout = "20060102t150405z"

// beginBackup begins a backup, named after the second if it has no name yet. Of those that
// begin in the same second, the later ones are numbered.
func beginBackup(ctx context.Context, store archive.Store, o archive.WriterOptions) (*archive.Writer, error) {
	if o.Name != "" {
		return archive.Begin(ctx, store, o)
	}
	const inSecondMax = 100
	second := strings.ToLower(o.Now().UTC().Format(backupNameLayout))
	for n := 1; ; n++ {
		o.Name = second
		if n > 1 {
			o.Name = fmt.Sprintf("%s-%d", second, n)
		}
		w, err := archive.Begin(ctx, store, o)
		if !errors.Is(err, archive.ErrUsed) || n == inSecondMax {
			return w, err
		}
	}
}

// runBackup makes a backup, or goes on with one.
func runBackup(cmd *cobra.Command, c *client.Client, store archive.Store, databases []string, o archive.WriterOptions) (m *archive.Manifest, err error) {
	ctx := cmd.Context()
	if o.Cluster, err = c.ClusterName(ctx); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		m, err = writeBackup(cmd, c, store, databases, o, try <= snapshotTries)
		if !errors.Is(err, client.ErrNotFound) || try > snapshotTries {
			return m, err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "the backup starts again, and takes from what is written what has not changed: %v\n", err)
	}
}

// snapshotTries is how many snapshots a backup tries to read to the end; then it is made without one.
const snapshotTries = 3

// writeBackup makes a backup, or goes on with one. Errors: client.ErrNotFound when the snapshot that it
// reads has ended.
func writeBackup(cmd *cobra.Command, c *client.Client, store archive.Store, databases []string, o archive.WriterOptions, fromSnapshot bool) (m *archive.Manifest, err error) {
	ctx := cmd.Context()
	if o.Name == "" {
		if o.Name, err = archive.Unfinished(ctx, store, o.Cluster); err != nil {
			return nil, err
		}
	}
	start := o.Now() // before anything is read
	w, err := beginBackup(ctx, store, o)
	if err != nil {
		return nil, err
	}
	m, taken, err := copyAll(cmd, &backup{client: c, archive: w, keepEvery: snapshotKeepEvery}, databases, start.UnixMilli(), fromSnapshot)
	if err != nil {
		return nil, errors.Join(err, w.Abandon(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "backup %s: %d samples of %d series; %s written, %d of %d parts were there\n",
		m.Name, m.Samples, m.Series, display.Bytes(uint64(m.Written)), taken, m.Units)
	return m, nil
}

// copyAll copies the databases that are named, or all, from a snapshot if one is wanted and the server makes one.
func copyAll(cmd *cobra.Command, b *backup, named []string, startedMs int64, fromSnapshot bool) (m *archive.Manifest, taken int, err error) {
	ctx := cmd.Context()
	if b.databases, err = databasesToBackUp(ctx, b.client, named); err != nil {
		return nil, 0, err
	}
	if fromSnapshot {
		err = b.takeSnapshot(ctx)
	} else {
		err = &errNoSnapshot{fmt.Errorf("%d ended before they were read", snapshotTries)}
	}
	if none := (*errNoSnapshot)(nil); errors.As(err, &none) {
		fmt.Fprintf(cmd.ErrOrStderr(), "without a snapshot, what is written or deleted while the backup runs may be in it or not: %v\n", none)
	} else if err != nil {
		return nil, 0, err
	}
	b.progress = startProgress(cmd.ErrOrStderr(), 0)
	m, taken, err = b.copyFromSnapshot(ctx, startedMs)
	b.progress.end()
	if ended := b.endSnapshot(ctx); ended != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "the snapshot ends by itself: %v\n", ended)
	}
	return m, taken, err
}
