package kubernetes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	userCluster = "guarded"
	userSecret  = userCluster + "-users"
)

// users makes a cluster that answers the users of a Secret alone, and then others.
func (s *stage) users() {
	var sensor, stranger door
	s.phase("users by a Secret: HTTP and the SDK through Envoy", func(ctx context.Context) error {
		if err := s.giveUsers(ctx, "token-of-the-sensor"); err != nil {
			return err
		}
		if err := s.applyIn(ctx, namespace, neighbour(userCluster,
			"  routers: {count: 1}\n  envoy: {replicas: 1}\n  service: {tls: {}}\n  security: {authSecretName: "+userSecret+"}\n")); err != nil {
			return err
		}
		if err := s.available(ctx, namespace, userCluster); err != nil {
			return err
		}
		var err error
		if sensor, err = s.openDoor(ctx, userCluster); err != nil {
			return err
		}
		nobody := sensor
		stranger = sensor
		sensor.token, stranger.token = "token-of-the-sensor", "token-of-a-stranger"
		for _, refused := range []door{nobody, stranger} {
			if err := s.unserved(ctx, refused, "401"); err != nil {
				return err
			}
		}
		return s.served(ctx, sensor)
	})
	s.phase("other users: those before are refused, nobody restarts", func(ctx context.Context) error {
		before, err := s.processesOf(ctx, userCluster)
		if err != nil {
			return err
		}
		if err := s.giveUsers(ctx, stranger.token); err != nil {
			return err
		}
		if err := s.unserved(ctx, sensor, "401"); err != nil {
			return err
		}
		if err := s.served(ctx, stranger); err != nil {
			return err
		}
		after, err := s.processesOf(ctx, userCluster)
		if err == nil && after != before {
			err = fmt.Errorf("pods were %s, and are %s", before, after)
		}
		return err
	})
	s.phase("the cluster with users is deleted", func(ctx context.Context) error {
		if err := s.deleteNeighbour(ctx, userCluster); err != nil {
			return err
		}
		if _, err := s.kubectl(ctx, "delete", "secret/"+userSecret); err != nil {
			return err
		}
		return s.settled(ctx, 3)
	})
}

// giveUsers writes the Secret with one user, who has a token.
func (s *stage) giveUsers(ctx context.Context, token string) error {
	file := filepath.Join(s.TempDir(), "auth.yaml")
	text := fmt.Sprintf("users: [{name: sensor, tokens: [%x], rights: {default: write}}]\n", sha256.Sum256([]byte(token)))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	manifest, err := s.kubectl(ctx, "create", "secret", "generic", userSecret, "--from-file=auth.yaml="+file, "--dry-run=client", "--output=yaml")
	if err != nil {
		return err
	}
	return s.applyIn(ctx, namespace, strings.TrimSpace(manifest)+"\n")
}
