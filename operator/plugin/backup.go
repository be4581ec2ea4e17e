package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// followPeriod is how often a backup is looked at.
const followPeriod = time.Second

// backupSettings are the flags of a backup.
type backupSettings struct {
	name                string
	claim, path         string
	s3                  v1alpha1.S3Target
	incremental, verify bool
	ttl                 string
	follow              bool
	timeout             time.Duration
}

func (s *backupSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.name, "name", "", "`name` of the backup (default: the cluster's and the time)")
	f.StringVar(&s.claim, "claim", "", "`claim` of the volume that it is written to")
	f.StringVar(&s.path, "path", "", "`folder` in that volume (default: its root)")
	f.StringVar(&s.s3.Endpoint, "s3-endpoint", "", "`URL` of S3-compatible storage, instead of --claim")
	f.StringVar(&s.s3.Bucket, "s3-bucket", "", "`bucket` there")
	f.StringVar(&s.s3.Prefix, "s3-prefix", "", "`prefix` of the keys there")
	f.StringVar(&s.s3.Region, "s3-region", "", "`region` of the bucket")
	f.StringVar(&s.s3.SecretName, "s3-secret", "", "`Secret` with accessKeyID and secretAccessKey")
	f.StringVar(&s.s3.CASecretName, "s3-ca-secret", "", "`Secret` whose ca.crt has the storage's authority (default: the system's)")
	f.BoolVar(&s.incremental, "incremental", false, "copy only what no earlier backup at the same place has")
	f.BoolVar(&s.verify, "verify", false, "afterwards restore it into an empty server and compare")
	f.StringVar(&s.ttl, "ttl", "", "delete it `so long` after it is complete, as 30d (default: never)")
	f.BoolVar(&s.follow, "follow", true, "wait until it is complete, and fail if it fails")
	f.DurationVar(&s.timeout, "timeout", 24*time.Hour, "how long to wait")
}

// errTarget marks a place that is not told, or told twice.
var errTarget = errors.New("where to? either --claim, or --s3-endpoint, --s3-bucket and --s3-secret")

func (s *backupSettings) target() (v1alpha1.BackupTarget, error) {
	volume, remote := s.claim != "", s.s3 != v1alpha1.S3Target{}
	switch {
	case volume && !remote:
		return v1alpha1.BackupTarget{Volume: &v1alpha1.VolumeTarget{ClaimName: s.claim, Path: s.path}}, nil
	case remote && !volume && s.path == "" && s.s3.Endpoint != "" && s.s3.Bucket != "" && s.s3.SecretName != "":
		return v1alpha1.BackupTarget{S3: s.s3.DeepCopy()}, nil
	}
	return v1alpha1.BackupTarget{}, errTarget
}

func (c *command) newBackup() *cobra.Command {
	s := &backupSettings{}
	cmd := &cobra.Command{
		Use: "backup [CLUSTER]", Short: "Back a cluster up, and wait until that is done", Args: cobra.MaximumNArgs(1),
		Long: `Makes a TickMeshBackup and waits until it is complete. A backup holds every write that was
acknowledged before it began.`,
		Example: `  kubectl tickmesh backup demo --claim backups --verify
  kubectl tickmesh backup --s3-endpoint https://s3.example.com --s3-bucket metrics --s3-secret s3 --incremental`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := s.target()
			if err != nil {
				return err
			}
			k, err := c.connect(c.access)
			if err != nil {
				return err
			}
			cluster, err := k.cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			b := s.backup(cluster, target, time.Now())
			if err := k.API.Create(cmd.Context(), b); err != nil {
				return err
			}
			if s.follow {
				err = c.follow(cmd.Context(), k, b, s.timeout)
			}
			if c.isJSON() {
				b.SetManagedFields(nil)
				return errors.Join(display.JSON(c.out, b), err)
			}
			if !s.follow {
				_, err = fmt.Fprintf(c.out, "backup %s is made: kubectl get tmb %s shows how far it is\n", b.Name, b.Name)
			}
			return err
		},
	}
	s.define(cmd.Flags())
	return cmd
}

// backup gives the resource of a backup.
func (s *backupSettings) backup(c *v1alpha1.TickMeshCluster, target v1alpha1.BackupTarget, now time.Time) *v1alpha1.TickMeshBackup {
	name := s.name
	if name == "" {
		name = c.Name + "-" + now.UTC().Format("060102150405")
	}
	return &v1alpha1.TickMeshBackup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace},
		Spec: v1alpha1.TickMeshBackupSpec{
			ClusterRef: v1alpha1.ClusterReference{Name: c.Name}, Target: target, Incremental: s.incremental, Verify: s.verify, TTL: v1alpha1.Duration(s.ttl),
		},
	}
}

// errBackup marks a backup that was given up.
var errBackup = errors.New("the backup failed")

// follow tells of each phase of a backup until it has ended.
func (c *command) follow(ctx context.Context, k *Kubernetes, b *v1alpha1.TickMeshBackup, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	told := v1alpha1.JobPhase("")
	for {
		if err := k.API.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if b.Status.Phase != told && !c.isJSON() {
			told = b.Status.Phase
			fmt.Fprintf(c.out, "%s: %s\n", b.Name, told)
		}
		conditions := b.Status.Conditions
		if failed := meta.FindStatusCondition(conditions, v1alpha1.ConditionFailed); failed != nil && failed.Status == metav1.ConditionTrue {
			return fmt.Errorf("%w: %s: %s", errBackup, failed.Reason, failed.Message)
		}
		if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete) {
			if !c.isJSON() {
				fmt.Fprintf(c.out, "%d series, %d samples, %s written\n", b.Status.Series, b.Status.Samples, display.Bytes(uint64(max(0, b.Status.Bytes))))
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("backup %s goes on: %w", b.Name, ctx.Err())
		case <-time.After(followPeriod):
		}
	}
}
