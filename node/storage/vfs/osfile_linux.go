package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

type osFile struct {
	*os.File
	syncs *syncs
}

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) Preallocate(size int64) error {
	err := control(f.File, "fallocate", func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) {
		return f.growWithZeros(size)
	}
	return err
}

func (f *osFile) Punch(offset, length int64) error {
	return control(f.File, "fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, length)
	})
}

func (f *osFile) Links() (int, error) {
	stat, err := f.fstat()
	return int(stat.Nlink), err
}

func (f *osFile) Held() (int64, error) {
	const unit = 512 // of st_blocks
	stat, err := f.fstat()
	return stat.Blocks * unit, err
}

func (f *osFile) fstat() (stat unix.Stat_t, err error) {
	err = control(f.File, "fstat", func(fd int) error { return unix.Fstat(fd, &stat) })
	return stat, err
}

// growWithZeros reserves blocks on file systems without fallocate. What lies
// below the present end keeps its blocks, or its holes.
func (f *osFile) growWithZeros(size int64) error {
	at, err := f.Size()
	if err != nil {
		return err
	}
	zeros := make([]byte, min(max(size-at, 0), 1<<20))
	for at < size {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

func (f *osFile) Sync() error {
	return control(f.File, "fdatasync", f.syncs.fdatasync)
}

func (f *osFile) Map(length int64) (*Mapping, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if length <= 0 || length > size {
		return nil, fmt.Errorf("map %d of %d bytes of %s: %w", length, size, f.Name(), ErrMapLength)
	}
	var b []byte
	err = control(f.File, "mmap", func(fd int) (err error) {
		b, err = unix.Mmap(fd, 0, int(length), unix.PROT_READ, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newMapping(f.Name(), b, unix.Munmap, adviseOS), nil
}

func adviseOS(b []byte, advice Advice) error {
	kernel := unix.MADV_NORMAL
	switch advice {
	case AdviceRandom:
		kernel = unix.MADV_RANDOM
	case AdviceWillNeed:
		kernel = unix.MADV_WILLNEED
	case AdviceDontNeed:
		kernel = unix.MADV_DONTNEED
	}
	return unix.Madvise(b, kernel)
}
