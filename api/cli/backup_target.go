package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/settings"
)

// listedBackup is a backup in a list for programs.
type listedBackup struct {
	jobReport
	Complete bool   `json:"complete"`
	Problem  string `json:"problem,omitempty"`
}

func newBackupListCommand() *cobra.Command {
	var o settings.Output
	s := &targetCommand{run: func(cmd *cobra.Command, store archive.Store) error {
		list, err := archive.List(cmd.Context(), store)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "there are no backups in %s\n", store)
		}
		listed, rows := []listedBackup{}, [][]string{}
		for i := range list {
			e := &list[i]
			if e.Manifest == nil {
				listed = append(listed, listedBackup{jobReport: jobReport{Name: e.Name}, Problem: e.Err.Error()})
				rows = append(rows, []string{e.Name, "-", "-", "-", "-", "-", "unreadable: " + e.Err.Error()})
				continue
			}
			m, state := e.Manifest, "complete"
			if !e.Complete() {
				state = "cut short, or being written"
			}
			listed = append(listed, listedBackup{jobReport: reportOf(m), Complete: e.Complete()})
			rows = append(rows, []string{
				m.Name, m.Cluster, time.UnixMilli(m.StartedMs).UTC().Format(time.RFC3339), fmt.Sprint(m.Samples),
				display.Bytes(uint64(m.Bytes)), display.Bytes(uint64(m.Written)), state,
			})
		}
		if o.IsJSON() {
			return display.JSON(cmd.OutOrStdout(), listed)
		}
		return display.Table(cmd.OutOrStdout(), "NAME CLUSTER BEGUN SAMPLES SIZE WRITTEN STATE", rows)
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "list TARGET", Short: "List backups, the oldest first",
		Example: "  tickmesh backup list /backups\n  tickmesh backup list s3://backups/tickmesh --output json",
	})
	o.Define(cmd.Flags())
	s.Define(cmd.Flags())
	return cmd
}

func newBackupVerifyCommand(startServer VerificationServer) *cobra.Command {
	var name, folder string
	s := &targetCommand{}
	s.run = func(cmd *cobra.Command, store archive.Store) error {
		b, err := archive.Load(cmd.Context(), store, name)
		if err != nil {
			return err
		}
		if err := checkBackup(cmd, b); err != nil {
			return err
		}
		if folder != "" {
			if err := tryRestore(cmd, b, startServer, folder); err != nil {
				return err
			}
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "backup %s is whole: %d samples\n", b.Name, b.Samples)
		return s.writeReport(reportOf(&b.Manifest))
	}
	cmd := s.prepare(&cobra.Command{
		Use: "verify TARGET", Short: "Read a backup and compare all checksums",
		Long: `Reads all objects of a backup, and compares their checksums, and number and digest of the samples of
each metric and day. With --restore the backup is also restored into an empty server, which is made
in a folder and deleted again, and what that server then has is compared with the backup; of hours
before raw these are the last samples.`,
		Example: "  tickmesh backup verify /backups --name 20261121t164200z --restore /tmp",
	})
	cmd.Flags().StringVar(&name, "name", "", "`name` of the backup (default: the newest that is complete)")
	cmd.Flags().StringVar(&folder, "restore", "", "`folder` to make an empty server in")
	s.Define(cmd.Flags())
	return cmd
}

// prunedReport is what was deleted.
type prunedReport struct {
	Backups []string `json:"backups"`
	Objects int64    `json:"objects"`
	Bytes   int64    `json:"bytes"`
}

func newBackupPruneCommand() *cobra.Command {
	var names []string
	var keep settings.Count
	var running bool
	grace := settings.Duration(archive.GraceDefault)
	s := &targetCommand{check: func(v *settings.Validation) {
		v.Between("keep", keep, 0, 1<<20)
		for _, name := range names {
			if archive.CheckName(name) != nil {
				v.Refuse("name", name, "expected names of backups")
			}
		}
	}}
	s.run = func(cmd *cobra.Command, store archive.Store) error {
		done, err := archive.Prune(cmd.Context(), store, archive.PruneOptions{
			Names: names, Keep: int(keep), Grace: time.Duration(grace), Running: running, Now: time.Now(),
		})
		for _, name := range done.Backups {
			fmt.Fprintf(cmd.ErrOrStderr(), "backup %s deleted\n", name)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%d objects deleted, %s\n", done.Objects, display.Bytes(uint64(done.Bytes)))
		return s.writeReport(prunedReport{append([]string{}, done.Backups...), done.Objects, done.Bytes})
	}
	cmd := s.prepare(&cobra.Command{
		Use: "prune TARGET", Short: "Delete backups, and what no other backup needs",
		Long: `Deletes backups, those that were cut short long ago, and then all objects that no other backup
needs. Backups may be made meanwhile: then what is younger than --grace stays, as they may need
it, and goes with a later prune.`,
		Example: "  tickmesh backup prune /backups --keep 7\n  tickmesh backup prune s3://backups/tickmesh --name 20261121t164200z",
	})
	cmd.Flags().StringSliceVar(&names, "name", nil, "`names` of backups to delete, with commas between")
	cmd.Flags().Var(&keep, "keep", "`number` of complete backups of each cluster to keep, the newest; 0: all")
	cmd.Flags().Var(&grace, "grace", "how old a backup that was cut short has to be to be deleted, and, while there is a younger one, what no backup needs")
	cmd.Flags().BoolVar(&running, "running", false, "delete a named backup though it may still be written")
	s.Define(cmd.Flags())
	return cmd
}

// VerificationServer starts an empty server in a folder, which only this process can reach. A backup
// is restored into it to see that it can be.
type VerificationServer func(ctx context.Context, dir string) (c *client.Client, stop func() error, err error)

// tryRestore restores a backup into an empty server in a folder, and compares.
func tryRestore(cmd *cobra.Command, b *archive.Backup, start VerificationServer, folder string) (err error) {
	dir, err := os.MkdirTemp(folder, "tickmesh-verification-")
	if err != nil {
		return fmt.Errorf("--restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, closeServer, err := start(cmd.Context(), dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	// An empty server keeps all samples.
	r := &restore{cmd: cmd, client: c, backup: b, lastSamples: true, raw: rawTimes{c, map[metricName]int64{}}}
	if err := r.run(); err != nil {
		return err
	}
	return r.verify()
}
