package kubernetes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// earlierCommit is what clusters run that are upgraded to the sources as they are. It moves to that of
// a release when there is one, as versions one apart have to work together.
const earlierCommit = "3a111b17491c27a963379860f41d0acd309d4452"

// earlierSources is where the sources of the earlier commit are; earlierImages, their images.
func earlierSources(f lab.Folders) string { return filepath.Join(productImages(f), "earlier-sources") }

func earlierImages(f lab.Folders) string { return filepath.Join(productImages(f), "earlier") }

// buildEarlier checks the earlier commit out, and builds its images.
func buildEarlier(ctx context.Context, f lab.Folders) error {
	if err := checkOut(ctx, f.Checkout, earlierCommit, earlierSources(f)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(f.Bin, "images"), "product", "-out", earlierImages(f), "-prefix", "", "-architectures", architecture)
	cmd.Dir, cmd.Stdout, cmd.Stderr = earlierSources(f), os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.Run()
}

// checkOut has a folder hold the sources of a commit, as a worktree of the repository.
func checkOut(ctx context.Context, repository, commit, folder string) error {
	git := func(args ...string) (string, error) {
		output, err := exec.CommandContext(ctx, "git", args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, output)
		}
		return strings.TrimSpace(string(output)), err
	}
	if _, err := git("-C", repository, "cat-file", "-e", commit+"^{commit}"); err != nil {
		return fmt.Errorf("the upgrade begins with the commit %s, which this clone does not have; fetch the whole history (git fetch --unshallow), or leave the test out by -test.short: %w", commit, err)
	}
	if _, err := os.Stat(filepath.Join(folder, ".git")); err == nil {
		if at, err := git("-C", folder, "rev-parse", "HEAD"); err == nil && at == commit {
			return nil
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	_, err := git("-C", repository, "worktree", "add", "--force", "--force", "--detach", folder, commit)
	return err
}

// A commit that is not there is told of, with the remedy; one that is there is checked out, also where
// something else was before.
func TestCheckOut(t *testing.T) {
	repository, folder := t.TempDir(), filepath.Join(t.TempDir(), "sources")
	git := func(args ...string) string {
		t.Helper()
		args = append([]string{"-C", repository, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)
		output, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, output)
		}
		return strings.TrimSpace(string(output))
	}
	git("init", "--quiet")
	var commits []string
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(filepath.Join(repository, "file"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", "file")
		git("commit", "--quiet", "--message", text)
		commits = append(commits, git("rev-parse", "HEAD"))
	}
	for _, i := range []int{0, 0, 1, 0} {
		if err := checkOut(t.Context(), repository, commits[i], folder); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(folder, "file"))
		if want := []string{"first", "second"}[i]; err != nil || string(text) != want {
			t.Fatalf("%q, %v, and not %q", text, err, want)
		}
	}
	err := checkOut(t.Context(), repository, earlierCommit, folder)
	if err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Fatal(err)
	}
}

// A cluster that an earlier commit of the product has made is upgraded to the sources as they are,
// under writes, as a person would: by the recipe.
func TestUpgradeOfEarlierCommit(t *testing.T) {
	s := newStage(t)
	if testing.Short() {
		t.Skip("left out with -short for its time: the images of another commit are built")
	}
	t.Cleanup(s.printTable)
	s.phase("images of an earlier commit are copied", s.loadImages(earlierImages(s.rack.Folders)))
	t.Cleanup(s.remove)
	s.release = earlierSources(s.rack.Folders)
	s.install()
	s.startLoad()
	s.upgrade()
	s.podLoss()
}
