package process

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ListenError names the flag of an address that cannot be listened on, and the remedy where
// that is known. It returns other errors unchanged.
func ListenError(flag, address string, err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "listen" {
		return err
	}
	advice := "choose another address"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		advice = "stop the program that listens there, or choose another address"
	case errors.Is(err, syscall.EACCES):
		advice = "choose a port above 1023, or give the program CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		advice = "choose an address of this machine"
	}
	return fmt.Errorf("--%s %s: %w; %s", flag, address, op.Err, advice)
}
