package kubernetes

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// How clients deal with a machine that is silent: as charts/tickmesh/OPERATING.md tells clients to,
// and as the SDK does.
const (
	// connectTime is for one attempt to connect. Kubernetes leads new connections also to pods of a
	// machine that is lost, until it believes that it is, and each connection to a pod by chance.
	connectTime  = time.Second
	connectPause = 50 * time.Millisecond
	// silentTime is how long the other side's kernel may leave bytes unacknowledged.
	silentTime = 2200 * time.Millisecond
)

// dial connects. It tries until ctx ends, or for sendTime.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	dialer := net.Dialer{
		Timeout:         connectTime,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2},
		Control:         boundSilence,
	}
	for {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(connectPause):
		}
	}
}

// boundSilence has the kernel end a connection whose other side is silent for silentTime.
func boundSilence(_, _ string, raw syscall.RawConn) error {
	var refused error
	err := raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silentTime.Milliseconds()))
	})
	if err == nil {
		err = os.NewSyscallError("setsockopt", refused)
	}
	return err
}

// An attempt that fails is made again, until there is somebody.
func TestDial(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	connected := make(chan error, 1)
	go func() {
		conn, err := dial(t.Context(), "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		connected <- err
	}()
	select {
	case err := <-connected:
		t.Fatalf("connected to nobody: %v", err)
	case <-time.After(3 * connectPause):
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
}
