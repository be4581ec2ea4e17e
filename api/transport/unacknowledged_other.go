//go:build !linux

package transport

import (
	"net"
	"time"
)

// boundUnacknowledged does nothing: what gRPC sets holds.
func boundUnacknowledged(net.Conn, time.Duration) error { return nil }
