package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

var errHungUp = fmt.Errorf("the client has hung up: %w", context.Canceled)

// awaitHangUp returns nil when the client has closed its side, whatever is to be read before that.
func (c *conn) awaitHangUp() error {
	more, err := len(c.prefix) > 0, error(nil)
	if !more {
		more, err = c.awaitMore()
	}
	if err == nil && more { // bytes of the next request hide the end behind them
		err = c.awaitEnd()
	}
	return err
}

// whileWaiting returns a context that ends when the client hangs up while its request waits for
// room. Nobody may read the connection until the function that it returns has ended the watch;
// the rest of the request may take readTimeout from then on, as the wait was not the client's.
func (c *conn) whileWaiting(ctx context.Context, readTimeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	_ = c.SetReadDeadline(time.Time{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.awaitHangUp(); err == nil || !errors.Is(err, errDeadline) { // or the connection was closed on this side
			cancel(errHungUp)
		}
	}()
	return ctx, func() {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		<-ended
		cancel(nil)
		_ = c.SetReadDeadline(time.Now().Add(readTimeout))
	}
}

// awaitMore waits until there is something to read, and reports whether that is more
// than the end.
func (c *conn) awaitMore() (more bool, err error) {
	if c.secure != nil {
		err := c.secure.waitReadable()
		return c.secure.peeked.Load(), err
	}
	err = c.raw.Read(func(fd uintptr) bool {
		n, err := peekSocket(fd)
		more = n > 0
		return err == nil || !wouldBlock(err)
	})
	return more, err
}

// awaitEnd waits until the client has closed its side, whatever is to be read before that.
func (c *conn) awaitEnd() error {
	return c.raw.Read(func(fd uintptr) bool {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, err := unix.Poll(polled, 0)
		return err == nil && polled[0].Revents != 0
	})
}
