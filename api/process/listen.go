package process

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ListenError says of which flag an address is that cannot be listened on, and what to do
// where that is known. Other errors are given back as they are.
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
