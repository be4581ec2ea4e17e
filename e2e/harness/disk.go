package harness

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNoDisk reports that this machine does not let us make a disk whose power can be
// cut; the text says why. It needs root, loop devices and ext4.
var ErrNoDisk = errors.New("no disk can be made here")

// Disk is a file system of its own, in an image file, whose power can be cut: then
// all that was not synced is gone, but for what the kernel happened to write.
type Disk struct {
	image, mount string
}

const (
	// fsShutdown and shutdownNoFlush are FS_IOC_SHUTDOWN and its flag that keeps the
	// file system from writing even its journal (linux/fs.h, ext4.h).
	fsShutdown      = 0x8004587d
	shutdownNoFlush = 2
	// fiFreeze and fiThaw are FIFREEZE and FITHAW (linux/fs.h).
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
	// commitSeconds is how often the kernel writes by itself: so seldom that it hides
	// no sync that is missing.
	commitSeconds = 300
	mountName     = "tickmesh-e2e-disk"
)

// NewDisk makes an empty disk below dir. Close removes it. Errors: ErrNoDisk.
func NewDisk(dir string, sizeBytes int64) (*Disk, error) {
	d := &Disk{image: filepath.Join(dir, "image"), mount: filepath.Join(dir, mountName)}
	if err := os.MkdirAll(d.mount, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.image, nil, 0o644); err != nil {
		return nil, err
	}
	if err := os.Truncate(d.image, sizeBytes); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", d.image}, d.mountArgs()} {
		if err := run(args); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoDisk, err)
		}
	}
	return d, nil
}

// Dir is the root of the file system.
func (d *Disk) Dir() string { return d.mount }

// Cut cuts the power and gives it back: the file system is as a restart of the
// machine would find it. Processes that had files open must have ended.
func (d *Disk) Cut() error {
	folder, err := os.Open(d.mount)
	if err != nil {
		return err
	}
	err = unix.IoctlSetPointerInt(int(folder.Fd()), fsShutdown, shutdownNoFlush)
	if err := errors.Join(err, folder.Close()); err != nil {
		return fmt.Errorf("cut the power of %s: %w", d.mount, err)
	}
	if err := run([]string{"umount", d.mount}); err != nil {
		return err
	}
	return run(d.mountArgs())
}

// fillerPath names the file that takes all room.
func (d *Disk) fillerPath() string { return filepath.Join(d.mount, "filler") }

// Fill takes all room that there is, until Free.
func (d *Disk) Fill() error {
	file, err := os.OpenFile(d.fillerPath(), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	fd, end := int(file.Fd()), int64(0)
	for piece := int64(1) << 30; piece > 0; {
		err := unix.Fallocate(fd, 0, end, piece)
		switch {
		case errors.Is(err, unix.ENOSPC):
			piece /= 2 // what is left is less
		case err != nil:
			return fmt.Errorf("fill %s: %w", d.mount, err)
		default:
			end += piece
		}
	}
	return nil
}

// Free frees the space again.
func (d *Disk) Free() error { return os.Remove(d.fillerPath()) }

// Freeze has writes to the disk wait until Thaw.
func (d *Disk) Freeze() error { return d.control(fiFreeze) }

// Thaw ends Freeze.
func (d *Disk) Thaw() error { return d.control(fiThaw) }

func (d *Disk) control(request uint) error {
	folder, err := os.Open(d.mount)
	if err != nil {
		return err
	}
	err = unix.IoctlSetInt(int(folder.Fd()), request, 0)
	return errors.Join(err, folder.Close())
}

// Close unmounts the disk.
func (d *Disk) Close() error { return run([]string{"umount", d.mount}) }

func (d *Disk) mountArgs() []string {
	return []string{"mount", "-o", fmt.Sprintf("loop,commit=%d", commitSeconds), d.image, d.mount}
}

// underBootID returns the command that runs a program on a disk and finds the text of a
// file where the kernel says which boot this is: after a power cut it has to be
// another one. For that it gets a mount namespace of its own, in which it must not
// hold the disks of others.
func (d *Disk) underBootID(file, path string, args []string) (string, []string) {
	const script = `boot=$1 own=$2
shift 2
while read -r _ mount _; do
	case $mount in "$own") ;; */` + mountName + `) umount "$mount" || exit ;; esac
done </proc/self/mounts
mount --bind "$boot" /proc/sys/kernel/random/boot_id && exec "$@"`
	return "unshare", append([]string{"--mount", "sh", "-c", script, "sh", file, d.mount, path}, args...)
}

// writeBootID writes a new boot id, as the kernel words them.
func writeBootID(file string) error {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return os.WriteFile(file, fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), 0o644)
}

func run(args []string) error {
	if output, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, output)
	}
	return nil
}
