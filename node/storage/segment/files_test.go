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
	b, err := vfs.ReadFile(fs, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, name string, b []byte) {
	t.Helper()
	if err := vfs.WriteFile(fs, name, b); err != nil {
		t.Fatal(err)
	}
}
