package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/parse"
)

// datagrams takes UDP datagrams: put lines, with or without the word put, or line protocol, one or more in each.
// Nobody is answered. What arrived together is written together; meanwhile the
// kernel's buffer fills, and what it drops is counted.
type datagrams struct {
	*streams
	socket   *net.UDPConn
	messages []ipv4.Message
	together []byte // the datagrams of one system call, a line end after each
	// principal is whose rights all datagrams have.
	principal access.Principal
	lost      uint32 // the kernel's count of dropped datagrams
}

const datagramBytesMax = 64 << 10

func listenUDP(address string, s *streams) (*datagrams, error) {
	o := &s.options.UDP
	resolved, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, fmt.Errorf("udp listener: %w", err)
	}
	socket, err := net.ListenUDP("udp", resolved)
	if err != nil {
		return nil, fmt.Errorf("udp listener: %w", err)
	}
	d := &datagrams{streams: s, socket: socket, principal: access.Anyone()}
	if s.options.Authenticator != nil {
		if d.principal, err = s.options.Authenticator.Named(o.User); err != nil {
			_ = socket.Close()
			return nil, fmt.Errorf("udp listener: %w", err)
		}
	}
	if err := d.configure(o.ReceiveBufferBytes); err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("udp listener: %w", err)
	}
	oobBytes := unix.CmsgSpace(4)
	for range o.BatchMax {
		d.messages = append(d.messages, ipv4.Message{
			Buffers: [][]byte{make([]byte, datagramBytesMax)}, OOB: make([]byte, oobBytes),
		})
	}
	return d, nil
}

// configure asks for a large buffer, of which the kernel may give less, and for
// the count of dropped datagrams.
func (d *datagrams) configure(receiveBufferBytes int) error {
	if err := d.socket.SetReadBuffer(receiveBufferBytes); err != nil {
		return err
	}
	raw, err := d.socket.SyscallConn()
	if err != nil {
		return err
	}
	var errOption error
	if err := raw.Control(func(fd uintptr) {
		errOption = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	}); err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt SO_RXQ_OVFL", errOption)
}

// run receives until the socket is closed or a drain begins.
func (d *datagrams) run() {
	packets := ipv4.NewPacketConn(d.socket) // its batches serve IPv6 sockets as well
	for d.base.Err() == nil {
		n, err := packets.ReadBatch(d.messages, 0)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			d.log.Warn("cannot receive datagrams", "error", err)
			sleep(d.base, acceptDelayMin)
			continue
		}
		d.take(d.messages[:n])
	}
}

// take writes the datagrams of one system call. One that ends inside a string is
// written by itself, so that it takes no lines of others along.
func (d *datagrams) take(messages []ipv4.Message) {
	d.together = d.together[:0]
	for i := range messages {
		d.countLost(messages[i].OOB[:messages[i].NN])
		payload := messages[i].Buffers[0][:messages[i].N]
		start := len(d.together)
		d.together = append(d.together, payload...)
		if len(payload) > 0 && payload[len(payload)-1] != '\n' {
			d.together = append(d.together, '\n')
		}
		if d.options.UDP.Format == UDPLine && !parse.LinesEnd(d.together[start:]) {
			d.write(d.together[:start])
			d.write(d.together[start:])
			d.together = d.together[:0]
		}
	}
	d.write(d.together)
}

// write writes whole lines.
func (d *datagrams) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	start := time.Now()
	pm := &d.metrics.protocols[protocolUDP]
	pm.bytes.Add(int64(len(lines)))
	nowMs, limits := d.options.Clock().UnixMilli(), d.options.Limits.Line
	d.writeUntilDone(attempts{
		timeout: d.options.UDP.RetryTimeout, protocol: protocolUDP, principal: d.principal, keep: true, bytes: len(lines),
		denied: func(err error) { d.log.Warn("datagrams dropped", "error", err) },
		parse: func(b *parse.Batch) (err error) {
			if d.options.UDP.Format == UDPLine {
				_, err = parse.Lines(b, lines, parse.LineOptions{Limits: limits, Precision: parse.PrecisionGuess, NowMs: nowMs, RefuseText: d.options.RefuseText})
			} else {
				_, err = parse.Puts(b, lines, parse.PutOptions{Limits: limits, Bare: true})
			}
			return err
		},
		done: func(b *parse.Batch, _ result, err error) {
			if err == nil && b.ErrorsTotal > 0 {
				d.log.Warn("datagrams with errors", "lines", b.ErrorsTotal, "first", b.Errors[0].Error())
			}
		},
	})
	pm.seconds.Observe(time.Since(start).Seconds())
}

// countLost reads the kernel's running count, which SO_RXQ_OVFL puts beside a
// datagram.
func (d *datagrams) countLost(oob []byte) {
	if len(oob) < unix.CmsgLen(4) {
		return
	}
	header, data, _, err := unix.ParseOneSocketControlMessage(oob)
	if err != nil || header.Level != unix.SOL_SOCKET || header.Type != unix.SO_RXQ_OVFL || len(data) < 4 {
		return
	}
	lost := binary.NativeEndian.Uint32(data)
	if n := lost - d.lost; n > 0 {
		d.lost = lost
		d.metrics.drops[dropDatagram].Add(int64(n))
		d.log.Warn("the kernel dropped datagrams: its receive buffer was full", "datagrams", n)
	}
}

// wait waits for run to end, until ctx ends.
func (d *datagrams) wait(ctx, abandon context.Context, ended <-chan struct{}) error {
	defer d.socket.Close()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		_ = d.socket.Close()
		select {
		case <-ended:
		case <-abandon.Done():
			return fmt.Errorf("udp listener: %w: %w", ErrAbandoned, context.Cause(ctx))
		}
		return fmt.Errorf("udp listener: stopped in the middle of a write: %w", context.Cause(ctx))
	}
}
