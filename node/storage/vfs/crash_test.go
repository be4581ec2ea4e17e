package vfs

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCrashKeepsWhatWasPromised runs random operations beside a model that
// remembers every version of every block since its last sync and every set of
// names since the last directory sync, then cuts the power.
func TestCrashKeepsWhatWasPromised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMemFS()
		model := newCrashModel()
		names := []string{"a", "b", "c"}
		name := rapid.SampledFrom(names)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				n := name.Draw(t, "name")
				f := model.open(m, n)
				offset := rapid.Int64Range(0, 4*BlockBytes).Draw(t, "offset")
				b := bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill")}, rapid.IntRange(1, 2*BlockBytes).Draw(t, "length"))
				_, err := f.WriteAt(b, offset)
				model.after(err, f, false)
			},
			"truncate": func(t *rapid.T) {
				f := model.open(m, name.Draw(t, "name"))
				model.after(f.Truncate(rapid.Int64Range(0, 4*BlockBytes).Draw(t, "size")), f, false)
			},
			"sync": func(t *rapid.T) {
				f := model.open(m, name.Draw(t, "name"))
				model.after(f.Sync(), f, true)
			},
			"sync directory": func(t *rapid.T) {
				if err := m.SyncDir("."); err != nil {
					t.Fatal(err)
				}
				model.syncNames()
			},
			"rename": func(t *rapid.T) {
				from, to := name.Draw(t, "from"), name.Draw(t, "to")
				if m.Rename(from, to) == nil && from != to {
					model.rename(from, to)
				}
			},
			"remove": func(t *rapid.T) {
				n := name.Draw(t, "name")
				if m.Remove(n) == nil {
					model.remove(n)
				}
			},
			"writeback": func(t *rapid.T) { m.Writeback(rapid.Uint64().Draw(t, "seed"), 50) },
			"": func(t *rapid.T) {
				options := CrashOptions{
					Seed:         rapid.Uint64().Draw(t, "seed"),
					BlockPercent: rapid.SampledFrom([]int{0, 30, 100}).Draw(t, "blocks"),
					NamePercent:  rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "names"),
				}
				if err := model.check(m, m.CrashClone(options), options); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

type crashModel struct {
	files    map[File]*modelFile
	names    map[string]File
	versions []map[string]File // of the names since the last SyncDir, the synced one first
}

type modelFile struct {
	versions [][]byte // contents since the last Sync, the synced one first
}

func newCrashModel() *crashModel {
	return &crashModel{files: map[File]*modelFile{}, names: map[string]File{}, versions: []map[string]File{{}}}
}

func (c *crashModel) changed() {
	v := map[string]File{}
	for n, f := range c.names {
		v[n] = f
	}
	c.versions = append(c.versions, v)
}

func (c *crashModel) syncNames() { c.versions = c.versions[len(c.versions)-1:] }

func (c *crashModel) open(m *MemFS, name string) File {
	if f := c.names[name]; f != nil {
		return f
	}
	f, err := m.Create(name)
	if err != nil {
		panic(err)
	}
	c.files[f] = &modelFile{versions: [][]byte{{}}}
	c.names[name] = f
	c.changed()
	return f
}

func (c *crashModel) rename(from, to string) {
	c.names[to] = c.names[from]
	delete(c.names, from)
	c.changed()
}

func (c *crashModel) remove(name string) {
	delete(c.names, name)
	c.changed()
}

func (c *crashModel) after(err error, f File, synced bool) {
	if err != nil {
		panic(err)
	}
	size, _ := f.Size()
	b := make([]byte, size)
	_, _ = f.ReadAt(b, 0)
	model := c.files[f]
	model.versions = append(model.versions, b)
	if synced {
		model.versions = model.versions[len(model.versions)-1:]
	}
}

// check compares a crashed file system with the model. The names must be one of
// the versions; each block of each file must be one of its versions, with zeros
// for what a version does not reach.
func (c *crashModel) check(m, crashed *MemFS, options CrashOptions) error {
	found, err := crashed.List(".")
	if err != nil {
		return err
	}
	versions := c.versions
	switch options.NamePercent {
	case 0:
		versions = versions[:1]
	case 100:
		versions = versions[len(versions)-1:]
	}
	var firstErr error
	for _, names := range slices.Backward(versions) {
		err := c.checkVersion(names, found, crashed, options)
		if err == nil {
			return nil
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	return fmt.Errorf("no version fits: %w", firstErr)
}

func (c *crashModel) checkVersion(names map[string]File, found []string, crashed *MemFS, options CrashOptions) error {
	if len(found) != len(names) {
		return fmt.Errorf("found %q, want %v", found, names)
	}
	for name, file := range names {
		f, err := crashed.Open(path.Join(".", name))
		if err != nil {
			return err
		}
		size, _ := f.Size()
		b := make([]byte, size)
		_, _ = f.ReadAt(b, 0)
		versions := c.files[file].versions
		if options.BlockPercent == 100 && !bytes.Equal(b, versions[len(versions)-1]) {
			return fmt.Errorf("%s is not the latest although all blocks survive", name)
		}
		if len(versions) == 1 && !bytes.Equal(b, versions[0]) {
			return fmt.Errorf("%s has %d bytes, not what was synced", name, size)
		}
		for at := 0; at < len(b); at += BlockBytes {
			if !anyBlock(versions, b, at) {
				return fmt.Errorf("%s: block at %d was never written", name, at)
			}
		}
	}
	return nil
}

func anyBlock(versions [][]byte, b []byte, at int) bool {
	block := b[at:min(at+BlockBytes, len(b))]
	for _, v := range versions {
		padded := make([]byte, len(block))
		if at < len(v) {
			copy(padded, v[at:])
		}
		if bytes.Equal(padded, block) {
			return true
		}
	}
	// The end of a file may fall on the end of one version and the contents of
	// the block be of another, cut or filled with zeros.
	for _, v := range versions {
		if at < len(v) {
			end := min(len(v)-at, len(block))
			for _, w := range versions {
				cut := make([]byte, len(block))
				if at < len(w) {
					copy(cut[:end], w[at:])
				}
				if bytes.Equal(cut, block) {
					return true
				}
			}
		}
	}
	return false
}

func TestCrashLosesNamesWithoutSyncDir(t *testing.T) {
	m := NewMemFS()
	must(t, m.MkdirAll("d/e"))
	create(t, m, "d/e/f", "synced data, unsynced name")
	crashed := m.CrashClone(CrashOptions{BlockPercent: 100})
	if names, err := crashed.List("d/e"); err != nil || len(names) != 0 {
		t.Errorf("found %q, %v", names, err)
	}
	must(t, m.SyncDir("d/e"))
	must(t, m.Rename("d/e/f", "d/g"))
	must(t, m.SyncDir("d"))
	crashed = m.CrashClone(CrashOptions{})
	if names, _ := crashed.List("d/e"); len(names) != 0 {
		t.Errorf("a rename between directories left %q", names)
	}
	if got := contents(t, crashed, "d/g"); got != "synced data, unsynced name" {
		t.Errorf("after the rename: %q", got)
	}
}

func TestCrashIsRepeatable(t *testing.T) {
	m := NewMemFS()
	for _, name := range []string{"a", "b", "c", "d"} {
		f, err := m.Create(name)
		must(t, err)
		_, err = f.WriteAt(bytes.Repeat([]byte(name), 10*BlockBytes), 0)
		must(t, err)
	}
	options := CrashOptions{Seed: 7, BlockPercent: 40, NamePercent: 50}
	one, two := m.CrashClone(options), m.CrashClone(options)
	if one.String() != two.String() || one.String() == "" {
		t.Fatalf("one seed gave\n%s\nand\n%s", one, two)
	}
	names, err := one.List(".")
	must(t, err)
	for _, name := range names {
		if contents(t, one, name) != contents(t, two, name) {
			t.Errorf("%s differs", name)
		}
	}
}
