package durable

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestReplace holds content, modes and what is left behind, of both kinds, whatever was there.
func TestReplace(t *testing.T) {
	t.Parallel()
	for kind, replace := range map[string]func(name string, content []byte) error{
		"alone":  Replace,
		"shared": func(name string, content []byte) error { return ReplaceShared(name, "x.*.part", content) },
	} {
		dir := filepath.Join(t.TempDir(), "a", "b")
		if err := MakeDir(dir); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "FILE")
		if err := os.WriteFile(name+newSuffix, []byte("longer than what comes, of an earlier attempt"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, content := range []string{"one", "", "three"} {
			if err := replace(name, []byte(content)); err != nil {
				t.Fatal(kind, err)
			}
			if got, err := os.ReadFile(name); err != nil || string(got) != content {
				t.Errorf("%s: %q %v", kind, got, err)
			}
		}
		for path, want := range map[string]os.FileMode{name: FileMode, dir: DirMode, filepath.Dir(dir): DirMode} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %s has %v, %v", kind, path, info.Mode(), err)
			}
		}
		// Where it fails, nothing is left behind and the file stays.
		if err := os.RemoveAll(name + newSuffix); err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(dir, "folder")
		if err := MakeDir(filepath.Join(folder, "inside")); err != nil {
			t.Fatal(err)
		}
		if err := replace(folder, []byte("x")); err == nil {
			t.Errorf("%s: a folder is replaced by a file", kind)
		}
		if err := replace(filepath.Join(dir, "none", "FILE"), nil); err == nil {
			t.Errorf("%s: a folder that is not there has a file", kind)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
			t.Errorf("%s: %v %v", kind, names, err)
		}
	}
}

// TestReplaceShared: of those who replace a file at the same time one wins, with all of its content.
func TestReplaceShared(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "FILE")
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			content := make([]byte, 1<<16)
			for i := range content {
				content[i] = byte('a' + n)
			}
			if err := ReplaceShared(name, "FILE.*", content); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(name)
	if err != nil || len(got) != 1<<16 {
		t.Fatal(len(got), err)
	}
	for _, b := range got {
		if b != got[0] {
			t.Fatal("the content of two")
		}
	}
}
