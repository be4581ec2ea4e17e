package kubernetes

import (
	"context"
	"strings"
)

// backup backs the cluster up to a volume and to S3-compatible storage while clients
// write, and once more after they have stopped.
func (s *stage) backup() {
	s.phase("recipe back-up, while clients write: verified", func(ctx context.Context) error {
		if err := s.recipe(ctx, "backup-volume"); err != nil {
			return err
		}
		return s.recipe(ctx, "back-up")
	})
	s.phase("recipe back-up-to-s3: verified", func(ctx context.Context) error {
		endpoint, err := s.startStorage(ctx)
		if err != nil {
			return err
		}
		return s.recipe(ctx, "back-up-to-s3", anyStorage, endpoint)
	})
	s.writing = false
	s.phase("clients stop, recipe back-up-incremental", func(ctx context.Context) error {
		if err := s.load.stop(); err != nil {
			return err
		}
		// What was in doubt is settled by what is read now.
		if err := s.load.check(ctx); err != nil {
			return err
		}
		return s.recipe(ctx, "back-up-incremental")
	})
}

// everythingLost deletes the cluster with its volumes, installs it again and restores:
// all that was acknowledged must be there. Nobody writes before.
func (s *stage) everythingLost() {
	s.phase("recipes delete and delete-volumes", func(ctx context.Context) error {
		if err := s.recipe(ctx, "delete"); err != nil {
			return err
		}
		return s.recipe(ctx, "delete-volumes")
	})
	s.install()
	for _, recipe := range []string{"restore", "restore-by-place"} {
		s.phase("recipe "+recipe+": compared", func(ctx context.Context) error {
			if err := s.recipe(ctx, recipe); err != nil {
				return err
			}
			if err := s.load.findDoor(ctx); err != nil {
				return err
			}
			return s.load.check(ctx)
		})
	}
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
