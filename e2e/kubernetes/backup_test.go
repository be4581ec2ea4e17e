package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// backup backs the cluster up, deletes it with its volumes, installs it again and
// restores: all that was acknowledged must be there.
func (s *stage) backup() {
	s.phase("a backup while clients write, verified", func(ctx context.Context) error {
		if err := s.apply(ctx, "backup-volume.yaml", ""); err != nil {
			return err
		}
		return s.complete(ctx, "backup-first.yaml", "", "tickmeshbackup/first")
	})
	s.phase("a backup to S3-compatible storage, verified", func(ctx context.Context) error {
		endpoint, err := s.startStorage(ctx)
		if err != nil {
			return err
		}
		return s.complete(ctx, "backup-s3.yaml", endpoint, "tickmeshbackup/elsewhere")
	})
	s.writing = false
	s.phase("clients stop, an incremental backup", func(ctx context.Context) error {
		if err := s.load.stop(); err != nil {
			return err
		}
		// What was in doubt is settled by what is read now.
		if err := s.load.check(ctx); err != nil {
			return err
		}
		return s.complete(ctx, "backup-second.yaml", "", "tickmeshbackup/second")
	})
	s.phase("everything is deleted, with its volumes", func(ctx context.Context) error {
		if err := s.helm(ctx, "uninstall", release, "--wait"); err != nil {
			return err
		}
		if err := s.rack.WaitOutput(ctx, "", "--namespace="+namespace, "get", "pods", "--selector=tickmesh.dev/cluster=demo,app.kubernetes.io/component!=backup", "--output=name"); err != nil {
			return err
		}
		_, err := s.kubectl(ctx, "delete", "pvc", "--selector=tickmesh.dev/cluster=demo")
		return err
	})
	s.install() // and nobody writes before the restore, which compares
	s.phase("the backup is restored, and compared", func(ctx context.Context) error {
		if err := s.load.findDoor(ctx); err != nil {
			return err
		}
		if err := s.complete(ctx, "restore.yaml", "", "tickmeshrestore/again"); err != nil {
			return err
		}
		return s.load.check(ctx)
	})
	s.try()
	s.phase("the backups are deleted, with their data", func(ctx context.Context) error {
		_, err := s.kubectl(ctx, "delete", "tickmeshbackups", "--all")
		return err
	})
}

// forgetBackups lets go of backups that a test has left because it failed: each waits
// for its data to be deleted, and there may be nobody who does it.
func (s *stage) forgetBackups(ctx context.Context) error {
	text, err := s.kubectl(ctx, "get", "tickmeshbackups", "--output=name", "--ignore-not-found")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(text) {
		if _, err := s.kubectl(ctx, "delete", name, "--wait=false"); err != nil {
			return err
		}
		if _, err := s.kubectl(ctx, "patch", name, "--type=merge", `--patch={"metadata":{"finalizers":null}}`); err != nil {
			return err
		}
	}
	return nil
}

// apply creates the objects of a manifest, in which ENDPOINT stands for an address.
func (s *stage) apply(ctx context.Context, file, endpoint string) error {
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		return err
	}
	return s.rack.Apply(ctx, strings.ReplaceAll(string(text), "ENDPOINT", endpoint))
}

// complete makes a backup or a restore, and waits until it is complete. It does not wait
// for one that has failed.
func (s *stage) complete(ctx context.Context, file, endpoint, object string) error {
	if err := s.apply(ctx, file, endpoint); err != nil {
		return err
	}
	return lab.Wait(ctx, func() (bool, error) {
		text, err := s.kubectl(ctx, "get", object, `--output=jsonpath={range .status.conditions[*]}{.type}={.status} {.message}; {end}`)
		switch {
		case err != nil:
			return false, err
		case strings.Contains(text, "Failed=True"):
			return true, fmt.Errorf("%s: %s", object, text)
		case !strings.Contains(text, "Complete=True"):
			return false, fmt.Errorf("%s: %s", object, text)
		}
		return true, nil
	})
}
