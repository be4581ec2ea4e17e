package years

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Disk is what one machine has, through all ends of its process.
type Disk interface {
	// FS returns the file system of the process that is started next, or runs.
	FS() vfs.FS
	// Dir returns the data folder.
	Dir() string
	// Kill ends what the process that runs can do to the disk. All that it wrote is there. It may be called
	// while the process writes.
	Kill()
	// PowerCut is Kill, after which what was not synced is there by chance.
	PowerCut(rng *rand.Rand)
	// Fill leaves no room for anything, or gives it back.
	Fill(full bool)
}

const capacity = 1 << 40

// memoryDisk is a disk in memory.
type memoryDisk struct{ machine *vfs.MemFS }

func newMemoryDisk() *memoryDisk { return &memoryDisk{vfs.NewMemFS()} }

func (d *memoryDisk) FS() vfs.FS  { return d.machine }
func (d *memoryDisk) Dir() string { return "data" }

func (d *memoryDisk) Kill() { d.crash(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100}) }

func (d *memoryDisk) PowerCut(rng *rand.Rand) {
	d.crash(vfs.CrashOptions{Seed: rng.Uint64(), BlockPercent: rng.IntN(100), NamePercent: rng.IntN(101), ReorderNames: rng.IntN(2) == 0})
}

func (d *memoryDisk) crash(o vfs.CrashOptions) {
	before := d.machine
	d.machine = before.CrashClone(o)
	d.machine.SetCapacity(capacity)
	before.SetCapacity(capacity) // what ends there must not wait for room
}

func (d *memoryDisk) Fill(full bool) {
	if full {
		d.machine.SetCapacity(0)
	} else {
		d.machine.SetCapacity(capacity)
	}
}

// folderDisk is a folder of a real disk. There a power cut is a kill.
type folderDisk struct {
	dir  string
	life *life
}

// life is what a process of a folderDisk may do.
type life struct{ dead, full atomic.Bool }

func newFolderDisk(dir string) *folderDisk { return &folderDisk{dir: dir, life: &life{}} }

func (d *folderDisk) FS() vfs.FS {
	return &boundedFS{vfs.Faults(vfs.OS(), d.life.rule), d.life}
}

func (d *folderDisk) Dir() string { return d.dir }

func (d *folderDisk) Kill() {
	d.life.dead.Store(true)
	d.life = &life{}
}

func (d *folderDisk) PowerCut(*rand.Rand) { d.Kill() }

func (d *folderDisk) Fill(full bool) { d.life.full.Store(full) }

var errKilled = errors.New("the process was killed")

// rule lets nothing pass after the end, and nothing that grows a file while the disk is full.
func (l *life) rule(op vfs.Op) error {
	if l.dead.Load() {
		return errKilled
	}
	if !l.full.Load() {
		return nil
	}
	switch op.Kind {
	case vfs.OpPreallocate, vfs.OpTruncate, vfs.OpWrite:
		end := op.Offset + op.Length
		if info, err := os.Stat(op.Name); err == nil && end > info.Size() {
			return syscall.ENOSPC
		}
	}
	return nil
}

// boundedFS reports that there is no room while its disk is full.
type boundedFS struct {
	vfs.FS
	life *life
}

func (b *boundedFS) Free(dir string) (int64, error) {
	if b.life.full.Load() {
		return 0, nil
	}
	return b.FS.Free(dir)
}

// Usage is what a data folder takes.
type Usage struct {
	Files, Bytes  int64 // of all
	TableBytes    int64 // of the series table
	KeysBytes     int64 // of the file of keys in it
	SegmentFiles  int64
	SegmentBytes  int64
	LogBytes      int64
	PageLogBytes  int64
	ManifestBytes int64
}

// walk adds what a data folder takes.
func (u *Usage) walk(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := u.add(fsys, dir, name); err != nil {
			return err
		}
	}
	return nil
}

func (u *Usage) add(fsys vfs.FS, dir, name string) error {
	full := path.Join(dir, name)
	info, err := fsys.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it went meanwhile
		return nil
	case err != nil:
		return err
	case !info.Dir:
		bytes := info.Size
		if name == "keys" { // it has holes
			if bytes, err = held(fsys, full); err != nil {
				return err
			}
		}
		u.count(filepath.Base(dir), name, bytes)
		return nil
	}
	names, err := fsys.List(full)
	if err != nil {
		return err
	}
	for _, below := range names {
		if err := u.add(fsys, full, below); err != nil {
			return err
		}
	}
	return nil
}

// held returns what a file takes of the disk.
func held(fsys vfs.FS, name string) (int64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return 0, err
	}
	bytes, err := f.Held()
	return bytes, errors.Join(err, f.Close())
}

func (u *Usage) count(folder, name string, bytes int64) {
	u.Files++
	u.Bytes += bytes
	switch folder {
	case "series":
		u.TableBytes += bytes
		if name == "keys" {
			u.KeysBytes += bytes
		}
	case "segments":
		u.SegmentFiles++
		u.SegmentBytes += bytes
	case "log":
		u.LogBytes += bytes
	case "pages":
		u.PageLogBytes += bytes
	}
	if name == "MANIFEST" {
		u.ManifestBytes += bytes
	}
}
