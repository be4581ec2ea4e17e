package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// gateFile is the descriptor at which the first process of new namespaces waits, until
// whoever started it has prepared its surroundings.
const gateFile = 3

// namespaces are those that the rack and every machine have for themselves.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// gated makes a command of this program that will run in new namespaces and wait. One
// byte into open lets it go on; if open is closed without, it ends.
func gated(log *os.File, args ...string) (cmd *exec.Cmd, open *os.File, err error) {
	wait, open, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "tickmesh-lab"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{wait}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	return cmd, open, nil
}

// openGate lets a gated command go on.
func openGate(open *os.File) error {
	_, err := open.Write([]byte{1})
	return errors.Join(err, open.Close())
}

// passGate waits until this process may go on.
func passGate() error {
	gate := os.NewFile(gateFile, "gate")
	if gate == nil {
		return errors.New("this command is the lab's own; use up")
	}
	defer gate.Close()
	if _, err := gate.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("whoever started this process has given up: %w", err)
	}
	return nil
}
