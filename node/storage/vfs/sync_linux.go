package vfs

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// asyncSyncsMax bounds the syncs that are asynchronous at a time; more of them hold a thread each.
const asyncSyncsMax = 4

// syncs makes files durable without holding one of Go's processors (Ps). A goroutine that calls fdatasync keeps its P until the
// runtime's monitor takes it away, which is 20 µs to 10 ms later, and a disk needs as long for the call: with few Ps, nobody
// is served meanwhile. So the kernel is asked by io_submit, which returns at once, and the goroutine waits for an eventfd as
// it would for a connection. It is safe for concurrent use.
type syncs struct {
	free chan *asyncSync // that nobody uses
	made atomic.Int32    // asyncSyncsMax at most
	off  atomic.Bool     // the kernel does not have it, or forbids it
}

func newSyncs() *syncs { return &syncs{free: make(chan *asyncSync, asyncSyncsMax)} }

// SyncsApart reports whether the kernel syncs files in threads of its own, so that no P is held meanwhile.
func SyncsApart() bool {
	s := newSyncs()
	file, err := unix.MemfdCreate("", unix.MFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(file)
	return s.fdatasync(file) == nil && !s.off.Load()
}

// fdatasync makes data and size of an open file durable.
func (s *syncs) fdatasync(fd int) error {
	a := s.take()
	if a == nil {
		return unix.Fdatasync(fd)
	}
	defer func() { s.free <- a }()
	if a.submit(fd) == nil {
		return a.wait()
	}
	err := unix.Fdatasync(fd)
	if err == nil { // so it is not the file that cannot be synced
		s.off.Store(true)
	}
	return err
}

// take returns an asyncSync that nobody else uses; nil: there is none.
func (s *syncs) take() *asyncSync {
	if s.off.Load() {
		return nil
	}
	select {
	case a := <-s.free:
		return a
	default:
	}
	if s.made.Add(1) > asyncSyncsMax {
		s.made.Add(-1)
		return nil
	}
	a, err := newAsyncSync()
	if err != nil {
		s.off.Store(true)
		return nil
	}
	return a
}

// asyncSync is one sync at a time by the kernel's asynchronous I/O; see io_submit(2).
type asyncSync struct {
	context uintptr  // of io_setup
	done    *os.File // the eventfd that tells of its end
	control ioControl
	count   [8]byte // what is read from done
}

// ioControl is struct iocb of linux/aio_abi.h, of machines with 64 bits and little-endian order. What a sync does not use has to be
// zero.
type ioControl struct {
	_          uint64 // data
	_          uint64 // key, flags of reads and writes
	operation  uint16
	_          int16 // priority
	descriptor uint32
	_          [4]uint64 // buffer, bytes, offset, reserved
	flags      uint32
	event      uint32 // the eventfd's descriptor
}

// ioEvent is struct io_event of linux/aio_abi.h.
type ioEvent struct {
	_      [2]uint64 // data, control
	result int64
	_      int64
}

const (
	operationFdatasync = 3 // IOCB_CMD_FDSYNC, since Linux 4.18
	flagEvent          = 1 // IOCB_FLAG_RESFD
)

func newAsyncSync() (*asyncSync, error) {
	a := &asyncSync{}
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	a.done = os.NewFile(uintptr(event), "eventfd")
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&a.context)), 0); errno != 0 {
		return nil, errors.Join(os.NewSyscallError("io_setup", errno), a.done.Close())
	}
	a.control = ioControl{operation: operationFdatasync, flags: flagEvent, event: uint32(event)}
	runtime.AddCleanup(a, func(context uintptr) { _, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0) }, a.context)
	return a, nil
}

// submit asks for a sync of an open file.
func (a *asyncSync) submit(fd int) error {
	a.control.descriptor = uint32(fd)
	list := [1]*ioControl{&a.control}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, a.context, 1, uintptr(unsafe.Pointer(&list)))
		runtime.KeepAlive(a)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("io_submit", errno)
		}
	}
}

// wait waits for the sync that was submitted, and returns its error.
func (a *asyncSync) wait() error {
	_, _ = a.done.Read(a.count[:]) // should it fail, the call below waits, and holds a thread
	var event ioEvent
	for {
		_, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, a.context, 1, 1, uintptr(unsafe.Pointer(&event)), 0, 0)
		runtime.KeepAlive(a)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return os.NewSyscallError("io_getevents", errno)
		case event.result < 0:
			return unix.Errno(-event.result)
		default:
			return nil
		}
	}
}
