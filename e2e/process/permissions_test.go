package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// openToOthers returns the files and folders in and with dir that others than their owner
// may use.
func openToOthers(t *testing.T, dir string) (open []string, seen int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		want := vfs.FileMode
		if e.IsDir() {
			want = vfs.FolderMode
		}
		if seen++; err == nil && info.Mode().Perm() != want {
			open = append(open, fmt.Sprintf("%s %s", info.Mode(), path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return open, seen
}

// TestFilesAreForTheirOwner runs servers, an export and a backup with a umask that allows
// everything, and looks at all that they have written.
func TestFilesAreForTheirOwner(t *testing.T) {
	dir := t.TempDir()
	defer syscall.Umask(syscall.Umask(0)) // inherited by the processes
	for name, flags := range map[string][]string{
		"alone":   {"--flush-interval", "1s", "--page-file-bytes", "1MiB"},
		"cluster": {"--nodes", "3", "--replication", "2", "--shards", "4"},
	} {
		out := filepath.Join(dir, name)
		s := startServer(t, filepath.Join(out, "data"), flags...)
		for _, port := range []string{"http", "grpc"} { // nodes and etcd listen, too
			line := s.waitLog("listening", func(l map[string]any) bool { return l["port"] == port })
			s.addr[port] = fmt.Sprint(line["address"])
		}
		if code, text := post(t, s.url("/write"), "cpu,host=a value=1\ncpu,host=b value=2\n"); code != 204 {
			t.Fatal(code, text)
		}
		for _, command := range [][]string{
			{"export", "--addr", s.addr["grpc"], "--out", filepath.Join(out, "all.line")},
			{"backup", "--addr", s.addr["grpc"], "--report", filepath.Join(out, "report.json"), filepath.Join(out, "backups")},
		} {
			if code, stdout, stderr := run(t, nil, command...); code != 0 {
				t.Fatal(command, code, stdout, stderr)
			}
		}
		s.signal(syscall.SIGTERM)
		if state := s.wait(); state.ExitCode() != 0 {
			t.Fatal(state)
		}
		for _, path := range []string{"data", "backups", "all.line", "report.json"} {
			open, seen := openToOthers(t, filepath.Join(out, path))
			if seen == 0 || len(open) > 0 {
				t.Errorf("%s: %d files, open to others:\n%s", path, seen, strings.Join(open, "\n"))
			}
		}
	}
}

// TestOldFolderIsClosed starts on a folder that an earlier version made readable for all.
// What is not the server's stays as it is.
func TestOldFolderIsClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	stop := func(s *testServer) {
		s.signal(syscall.SIGTERM)
		if state := s.wait(); state.ExitCode() != 0 {
			t.Fatal(state)
		}
	}
	stop(startServer(t, dir))
	foreign := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if e.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, dir)
	s.waitLog("the data folder is for its owner alone now", nil)
	stop(s)
	if open, _ := openToOthers(t, dir); len(open) != 1 || !strings.HasSuffix(open[0], "notes.txt") {
		t.Errorf("open to others:\n%s", strings.Join(open, "\n"))
	}
}

// TestForeignFolderStaysAsItIs starts on a folder of others that has a log, as /var has.
func TestForeignFolderStaysAsItIs(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "log", "text")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Dir(inside), inside} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := run(t, nil, "standalone", "--data-dir", dir, "--http-addr", "127.0.0.1:0", "--grpc-addr", ""); code == 0 || !strings.Contains(stderr, "no manifest") {
		t.Fatal(code, stderr)
	}
	for _, path := range []string{dir, filepath.Dir(inside), inside} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
			t.Error(path, info.Mode(), err)
		}
	}
}
