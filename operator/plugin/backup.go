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

// placeSettings are the flags that say where backups are.
type placeSettings struct {
	claim, path string
	s3          v1alpha1.S3Target
}

func (s *placeSettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.claim, "claim", "", "`claim` of the volume with the backups")
	f.StringVar(&s.path, "path", "", "`folder` in that volume (default: its root)")
	f.StringVar(&s.s3.Endpoint, "s3-endpoint", "", "`URL` of S3-compatible storage, instead of --claim")
	f.StringVar(&s.s3.Bucket, "s3-bucket", "", "`bucket` there")
	f.StringVar(&s.s3.Prefix, "s3-prefix", "", "`prefix` of the keys there")
	f.StringVar(&s.s3.Region, "s3-region", "", "`region` of the bucket")
	f.StringVar(&s.s3.SecretName, "s3-secret", "", "`Secret` with accessKeyID and secretAccessKey")
	f.StringVar(&s.s3.CASecretName, "s3-ca-secret", "", "`Secret` whose ca.crt has the storage's CA (default: the system's)")
}

// waitSettings are the flags of commands that wait for a Job.
type waitSettings struct {
	follow  bool
	timeout time.Duration
}

func (s *waitSettings) define(f *pflag.FlagSet) {
	f.BoolVar(&s.follow, "follow", true, "wait until it is complete, and fail if it fails")
	f.DurationVar(&s.timeout, "timeout", 24*time.Hour, "how long to wait")
}

// backupSettings are the flags of a backup.
type backupSettings struct {
	placeSettings
	waitSettings
	name                string
	incremental, verify bool
	ttl                 string
	encryption          v1alpha1.BackupEncryption
	signing             v1alpha1.BackupSigning
}

func (s *backupSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.name, "name", "", "`name` of the backup (default: the cluster's and the time)")
	s.placeSettings.define(f)
	f.StringSliceVar(&s.encryption.Recipients, "encrypt-to", nil, "`recipients` of age (age1…) that can read it, with commas between")
	f.StringVar(&s.encryption.IdentitySecretName, "identity-secret", "", "`Secret` whose identities.txt reads what --encrypt-to has encrypted; incremental backups and --verify need it")
	f.StringVar(&s.signing.SecretName, "sign-secret", "", "`Secret` whose signing.pem has the Ed25519 key that signs it")
	f.StringVar(&s.signing.VerifySecretName, "verify-secret", "", "`Secret` whose verify.pem has the Ed25519 keys that are trusted, with --sign-secret")
	f.BoolVar(&s.incremental, "incremental", false, "copy only what no earlier backup at the same place has")
	f.BoolVar(&s.verify, "verify", false, "afterwards restore it into an empty server and compare")
	f.StringVar(&s.ttl, "ttl", "", "delete it `so long` after it is complete, as 30d (default: never)")
	s.waitSettings.define(f)
}

// Errors of flags that go together.
var (
	errEncryption = errors.New("--identity-secret needs --encrypt-to, which says whom the backup is encrypted to")
	errSigning    = errors.New("--verify-secret needs --sign-secret, which signs the backup")
)

// keys returns what the backup is encrypted and signed with; nil: it is not.
func (s *backupSettings) keys() (e *v1alpha1.BackupEncryption, g *v1alpha1.BackupSigning, err error) {
	if len(s.encryption.Recipients) > 0 {
		e = s.encryption.DeepCopy()
	} else if s.encryption.IdentitySecretName != "" {
		return nil, nil, errEncryption
	}
	if s.signing.SecretName != "" {
		g = s.signing.DeepCopy()
	} else if s.signing.VerifySecretName != "" {
		return nil, nil, errSigning
	}
	return e, g, nil
}

// errTarget marks a place that is not told, or told twice.
var errTarget = errors.New("where? either --claim, or --s3-endpoint, --s3-bucket and --s3-secret")

func (s *placeSettings) target() (v1alpha1.BackupTarget, error) {
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
  kubectl tickmesh backup --s3-endpoint https://s3.example.com --s3-bucket metrics --s3-secret s3 --incremental
  kubectl tickmesh backup demo --claim backups --encrypt-to age1… --identity-secret keys --sign-secret signer --verify-secret trusted`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := s.target()
			if err != nil {
				return err
			}
			encryption, signing, err := s.keys()
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
			b.Spec.Encryption, b.Spec.Signing = encryption, signing
			if err := k.API.Create(cmd.Context(), b); err != nil {
				return err
			}
			if s.follow {
				err = c.follow(cmd.Context(), k, b, &b.Status.JobStatus, s.timeout)
				if err == nil && !c.isJSON() {
					fmt.Fprintf(c.out, "%d series, %d samples, %s written\n", b.Status.Series, b.Status.Samples, display.Bytes(uint64(max(0, b.Status.Bytes))))
				}
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

// nameAt returns the name that was chosen, or that of the cluster and a time.
func nameAt(chosen string, c *v1alpha1.TickMeshCluster, now time.Time) string {
	if chosen != "" {
		return chosen
	}
	return c.Name + "-" + now.UTC().Format("060102150405")
}

// backup returns the resource of a backup.
func (s *backupSettings) backup(c *v1alpha1.TickMeshCluster, target v1alpha1.BackupTarget, now time.Time) *v1alpha1.TickMeshBackup {
	return &v1alpha1.TickMeshBackup{
		ObjectMeta: metav1.ObjectMeta{Name: nameAt(s.name, c, now), Namespace: c.Namespace},
		Spec: v1alpha1.TickMeshBackupSpec{
			ClusterRef: v1alpha1.ClusterReference{Name: c.Name}, Target: target, Incremental: s.incremental, Verify: s.verify, TTL: v1alpha1.Duration(s.ttl),
		},
	}
}

// errJob marks a backup or a restore that was given up.
var errJob = errors.New("it failed")

// follow describes each phase of a backup or a restore until it has ended. The status is that
// of the object.
func (c *command) follow(ctx context.Context, k *Kubernetes, o client.Object, status *v1alpha1.JobStatus, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	told := v1alpha1.JobPhase("")
	for {
		if err := k.API.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if status.Phase != told && !c.isJSON() {
			told = status.Phase
			fmt.Fprintf(c.out, "%s: %s\n", o.GetName(), told)
		}
		conditions := status.Conditions
		if failed := meta.FindStatusCondition(conditions, v1alpha1.ConditionFailed); failed != nil && failed.Status == metav1.ConditionTrue {
			return fmt.Errorf("%s: %w: %s: %s", o.GetName(), errJob, failed.Reason, failed.Message)
		}
		if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s goes on: %w", o.GetName(), ctx.Err())
		case <-time.After(followPeriod):
		}
	}
}
