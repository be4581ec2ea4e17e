package processor

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// pollerPass has a goroutine wait for Go's network poller, behind all connections that have become readable before.
type pollerPass struct {
	file *os.File        // an eventfd; nil: it could not be made
	conn syscall.RawConn // of file
	told bool            // in the present wait
	tell func(descriptor uintptr) bool
}

func newPollerPass() *pollerPass {
	p := &pollerPass{}
	descriptor, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return p
	}
	p.file = os.NewFile(uintptr(descriptor), "eventfd")
	if p.conn, err = p.file.SyscallConn(); err != nil {
		p.close()
	}
	one := binary.NativeEndian.AppendUint64(nil, 1)
	// Each write is an event of its own for the poller, whether or not anybody has read the one before.
	p.tell = func(descriptor uintptr) bool {
		if p.told {
			return true
		}
		_, err := unix.Write(int(descriptor), one)
		p.told = err == nil
		return err != nil
	}
	return p
}

// wait returns when the poller has been asked once.
func (p *pollerPass) wait() {
	if p.file == nil {
		runtime.Gosched()
		return
	}
	p.told = false
	if p.conn.Read(p.tell) != nil { // the poller has not taken the descriptor: there may be too many
		runtime.Gosched()
	}
}

func (p *pollerPass) close() {
	if p.file != nil {
		_ = p.file.Close()
		p.file = nil
	}
}
