package plugin

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// restoreSettings are the flags of a restore.
type restoreSettings struct {
	placeSettings
	waitSettings
	name, backup, position       string
	identitySecret, verifySecret string
	verify                       bool
}

func (s *restoreSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.name, "name", "", "`name` of the restore (default: the cluster's and the time)")
	f.StringVar(&s.backup, "backup", "", "`name` of the TickMeshBackup")
	f.StringVar(&s.position, "position", "", "`name` of the backup at its place, where the TickMeshBackup is gone")
	s.placeSettings.define(f)
	f.StringVar(&s.identitySecret, "identity-secret", "", "`Secret` whose identities.txt decrypts it (default: that of the TickMeshBackup)")
	f.StringVar(&s.verifySecret, "verify-secret", "", "`Secret` whose verify.pem has the Ed25519 keys one of which has to have signed it (default: that of the TickMeshBackup)")
	f.BoolVar(&s.verify, "verify", false, "afterwards compare the cluster with it, which has to have been empty")
	s.waitSettings.define(f)
}

// errSource marks a backup that is not named, or named twice.
var errSource = errors.New("which backup? either --backup, or --position and its place: --claim, or --s3-endpoint, --s3-bucket and --s3-secret")

func (s *restoreSettings) source() (v1alpha1.RestoreSource, error) {
	source := v1alpha1.RestoreSource{BackupName: s.backup, Position: s.position, IdentitySecretName: s.identitySecret, VerifySecretName: s.verifySecret}
	switch placed := s.placeSettings != (placeSettings{}); {
	case (s.backup != "") == (s.position != ""), s.backup != "" && placed:
		return source, errSource
	case s.backup != "":
		return source, nil
	}
	target, err := s.target()
	source.Target = &target
	return source, err
}

func (c *command) newRestore() *cobra.Command {
	s := &restoreSettings{}
	cmd := &cobra.Command{
		Use: "restore [CLUSTER]", Short: "Write a backup into a cluster, and wait until that is done", Args: cobra.MaximumNArgs(1),
		Long: `Makes a TickMeshRestore and waits until it is complete. What is in the cluster already stays, and
samples of the same series and time get the value of the backup.`,
		Example: `  kubectl tickmesh restore demo --backup monday --verify
  kubectl tickmesh restore demo --position monday --claim backups --identity-secret keys --verify-secret trusted`,
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := s.source()
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
			r := &v1alpha1.TickMeshRestore{
				ObjectMeta: metav1.ObjectMeta{Name: nameAt(s.name, cluster, time.Now()), Namespace: cluster.Namespace},
				Spec:       v1alpha1.TickMeshRestoreSpec{ClusterRef: v1alpha1.ClusterReference{Name: cluster.Name}, Source: source, Verify: s.verify},
			}
			if err := k.API.Create(cmd.Context(), r); err != nil {
				return err
			}
			if s.follow {
				err = c.follow(cmd.Context(), k, r, &r.Status.JobStatus, s.timeout)
			}
			if c.isJSON() {
				r.SetManagedFields(nil)
				return errors.Join(display.JSON(c.out, r), err)
			}
			if !s.follow {
				_, err = fmt.Fprintf(c.out, "restore %s is made: kubectl get tickmeshrestore %s shows how far it is\n", r.Name, r.Name)
			}
			return err
		},
	}
	s.define(cmd.Flags())
	return cmd
}
