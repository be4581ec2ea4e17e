package segment

import (
	"path"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestBitsFlippedWhileOpen: what was intact when the file was opened, and read
// before, may be damaged when the kernel reads it from the disk again. No bit makes
// a wrong answer then, one that lacks samples, or a panic.
func TestBitsFlippedWhileOpen(t *testing.T) {
	want, file := smallFile(t)
	rollups := intactRollups(t, file, want)
	dir := t.TempDir()
	name := path.Join(dir, "x.seg")
	writeFile(t, vfs.OS(), name, file)
	r, err := Open(vfs.OS(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, r)
	if lost := readDamaged(t, r, want, rollups); lost != "" {
		t.Fatalf("%s is lost of an intact file", lost)
	}
	disk, err := vfs.OS().OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	step := 1
	if testing.Short() {
		step = 7
	}
	write := func(b byte, at int) {
		if _, err := disk.WriteAt([]byte{b}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(file); i += step {
		write(file[i]^1<<(i%8), i)
		readDamaged(t, r, want, rollups)
		write(file[i], i)
	}
	if lost := readDamaged(t, r, want, rollups); lost != "" {
		t.Fatalf("%s is lost after all was mended", lost)
	}
}
