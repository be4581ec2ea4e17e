package segment

import (
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"pgregory.net/rapid"
)

func memFS2(t *rapid.T) (*vfs.MemFS, string) {
	fs := vfs.NewMemFS()
	if err := fs.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	return fs, "/data"
}

func readFile(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}
