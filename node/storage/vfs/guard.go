package vfs

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// FaultError reports that a read of mapped memory failed: the file was cut shorter
// by somebody else, or its disk could not read the block.
type FaultError struct {
	Address uintptr // where the load was
	Name    string  // of the file, empty when not known
}

func (e *FaultError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("cannot read mapped memory at %#x: a data file was truncated or its disk fails", e.Address)
	}
	return fmt.Sprintf("cannot read %s through its mapping: the file was truncated or its disk fails (address %#x)", e.Name, e.Address)
}

// Guard runs read and turns a memory fault inside it into a *FaultError. The
// goroutine's fault setting is restored, so guards nest. Every other panic, a nil
// dereference included, goes on. It must be called by the goroutine that reads.
//
// It recovers any fault at a non-zero page, whoever owns the address; prefer
// Mapping.Guard where one mapping is read.
func Guard(read func() error) (err error) {
	defer restoreFault(setFault(), &err, nil)
	return read()
}

func setFault() bool { return debug.SetPanicOnFault(true) }

// restoreFault is deferred by the guards. See debug.SetPanicOnFault: the runtime
// error of a fault has an Addr method when the address is known.
func restoreFault(before bool, err *error, m *Mapping) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok || m != nil && !m.contains(fault.Addr()) {
		panic(r)
	}
	e := &FaultError{Address: fault.Addr()}
	if m != nil {
		e.Name = m.name
	}
	*err = e
}
