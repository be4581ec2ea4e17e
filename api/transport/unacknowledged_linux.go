package transport

import (
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged has the kernel end a connection whose peer's kernel acknowledges
// nothing for so long. gRPC sets it to its keepalive timeout, which is about processes.
func boundUnacknowledged(conn net.Conn, timeout time.Duration) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt", refused)
}
