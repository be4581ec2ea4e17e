package harness

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPowerCutDropsWhatIsNotSynced(t *testing.T) {
	disk, err := NewDisk(t.TempDir(), 32<<20)
	if errors.Is(err, ErrNoDisk) {
		t.Skipf("cannot be tested here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	}()
	write := func(name string, sync bool) {
		file, err := os.Create(filepath.Join(disk.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(name); err != nil {
			t.Fatal(err)
		}
		if sync {
			if err := file.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("synced", true)
	write("unsynced", false)
	if err := disk.Cut(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(disk.Dir(), "synced")); string(text) != "synced" {
		t.Fatalf("what was synced is %q (%v)", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(disk.Dir(), "unsynced")); err == nil && string(text) == "unsynced" {
		t.Fatal("what was not synced outlives a power cut")
	}
}
