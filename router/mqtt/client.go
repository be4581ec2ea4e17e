package mqtt

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/limitedlog"
	"github.com/tickmesh/tickmesh/router/ingest"
)

// Times of a connection.
const (
	dialTimeout = 10 * time.Second // until the broker has answered
	// writeTimeout is until the broker has taken the few bytes of a packet.
	writeTimeout = 10 * time.Second
	ackInterval  = 10 * time.Millisecond
	acksWait     = 5 * ackInterval  // until acknowledgements have left
	steadyAfter  = 10 * time.Second // a connection that stood so long begins its waits anew
	readBytes    = 16 << 10
)

// resumedMax bounds the messages beyond the receive maximum that wait: some brokers, Mosquitto 2.0.11 among them, send all
// that they have when a session is resumed. Memory bounds them, too.
const resumedMax = 16_384

// subscribeTriesMax bounds the subscriptions that are sent for one connection.
const subscribeTriesMax = 20

// reconnectWait is the time between two tries to connect.
func reconnectWait() backoff.Exponential {
	return backoff.Exponential{Min: 500 * time.Millisecond, Max: time.Minute}
}

// errRemoved is why a connection ends that the file has no more: its session at the broker ends, too.
var errRemoved = errors.New("the file names it no more")

// errNoRoom: messages come faster than they are written, or there is no memory for them.
var errNoRoom = errors.New("there is no room for messages that have come; the broker sends them again")

// client keeps a connection to a broker up.
type client struct {
	connection *connection
	options    *Options
	counts     *counts
	logger     *slog.Logger
	refusals   limitedlog.Log
	retries    limitedlog.Log
	drops      limitedlog.Log
	obsolete   []string // filters of the session that are unsubscribed
}

func newClient(c *connection, o *Options, counts *counts, obsolete []string) *client {
	limited := func() limitedlog.Log { return limitedlog.Log{Logger: o.Logger, Clock: time.Now} }
	return &client{connection: c, options: o, counts: counts, logger: o.Logger, refusals: limited(), retries: limited(), drops: limited(), obsolete: obsolete}
}

// run connects until ctx ends, whose cause may be errRemoved.
func (c *client) run(ctx context.Context) {
	failures := 0
	for next := 0; ctx.Err() == nil; next++ {
		u := c.connection.urls[next%len(c.connection.urls)]
		begun := time.Now()
		err := c.session(ctx, u)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > steadyAfter || errors.Is(err, errNoRoom) {
			failures = 0
		}
		failures++
		wait := reconnectWait().Delay(failures)
		c.logger.Warn("MQTT: the connection is tried again", "connection", c.connection.name, "broker", u.String(), "wait", wait.String(), "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// session connects once, and works until the connection or ctx ends. Messages that have come by then are written before
// it returns, unless ctx has ended: memory is bounded by one connection's, and a session that ends with its connection
// loses nothing that has come.
func (c *client) session(ctx context.Context, u *url.URL) error {
	i := &intake{client: c, queue: make(chan *message, c.connection.inFlight+resumedMax), drained: make(chan struct{})}
	i.lease = c.options.Memory.Lease(budget.Owner{Tenant: ingest.MQTTOwner})
	defer i.lease.Close()
	defer c.counts.inFlight.Store(0)
	defer c.counts.oldestMs.Store(0)
	w := &writer{connection: c.connection, to: c.options.Writer, counts: c.counts, done: i.done, logger: c.logger, refusals: &c.refusals, retries: &c.retries}
	written := make(chan struct{})
	go func() { defer close(written); w.run(ctx, i.queue) }()
	err := c.connect(ctx, u, i)
	close(i.queue) // nothing comes any more
	<-written
	return err
}

// connect connects, subscribes and waits for the end of the connection, after which nothing is received any more.
func (c *client) connect(ctx context.Context, u *url.URL, i *intake) error {
	cp, err := c.connectPacket()
	var conn net.Conn
	if err == nil {
		conn, err = c.dial(ctx, u)
	}
	if err != nil {
		c.counts.failedConnects.Add(1)
		return err
	}
	ended := make(chan error, 2)
	p := paho.NewClient(paho.ClientConfig{
		Conn: conn, PacketTimeout: dialTimeout,
		OnPublishReceived:          []func(paho.PublishReceived) (bool, error){i.received},
		EnableManualAcknowledgment: true, SendAcksInterval: ackInterval,
		OnClientError:      func(err error) { tell(ended, err) },
		OnServerDisconnect: func(d *paho.Disconnect) { tell(ended, disconnectError(d)) },
	})
	if err := c.open(ctx, p, cp); err != nil {
		c.counts.failedConnects.Add(1)
		return err
	}
	c.counts.connects.Add(1)
	c.counts.connected.Store(true)
	defer c.counts.connected.Store(false)
	c.logger.Info("MQTT: connected", "connection", c.connection.name, "broker", u.String(), "subscriptions", len(c.connection.subscriptions))
	err = c.await(ctx, ended, i.drained)
	if ctx.Err() != nil || errors.Is(err, errNoRoom) {
		bye := &paho.Disconnect{}
		if errors.Is(err, errRemoved) {
			over := uint32(0)
			bye.Properties = &paho.DisconnectProperties{SessionExpiryInterval: &over}
		}
		_ = p.Disconnect(bye) // a broker that does not hear it finds out
	}
	<-p.Done()
	if ctx.Err() == nil {
		c.counts.disconnected.Add(1)
	}
	return err
}

// await waits for the end of a connection, and returns why it is.
func (c *client) await(ctx context.Context, ended <-chan error, drained <-chan struct{}) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-drained:
	}
	timer := time.NewTimer(acksWait)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return errNoRoom
	}
}

// tell sends an error, unless enough wait already.
func tell(to chan<- error, err error) {
	select {
	case to <- err:
	default:
	}
}

// open signs in and subscribes. On an error the connection is closed, and nothing is received any more.
func (c *client) open(ctx context.Context, p *paho.Client, cp *paho.Connect) error {
	answer, err := p.Connect(ctx, cp)
	if err != nil {
		return connectError(answer, err)
	}
	if err := c.subscribe(ctx, p); err != nil {
		_ = p.Disconnect(&paho.Disconnect{})
		<-p.Done()
		return err
	}
	return nil
}

// dial opens the connection below MQTT.
func (c *client) dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var config *tls.Config
	if u.Scheme == schemeTLS {
		var err error
		if config, err = c.connection.tlsConfig(u.Hostname()); err != nil {
			return nil, err
		}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	if config != nil {
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("TLS with the broker failed; check that this port of it has TLS, and ca-file: %w", err)
		}
		conn = secure
	}
	return newBufferedConn(conn, writeTimeout), nil
}

// bufferedConn reads ahead: heads of packets are read byte by byte. A write that the broker does not take ends the connection, or
// whoever says goodbye would wait behind it.
type bufferedConn struct {
	net.Conn
	reader   *bufio.Reader
	writeMax time.Duration
}

func newBufferedConn(conn net.Conn, writeMax time.Duration) net.Conn {
	return packets.NewThreadSafeConn(&bufferedConn{conn, bufio.NewReaderSize(conn, readBytes), writeMax})
}

// Write implements io.Writer.
func (b *bufferedConn) Write(p []byte) (int, error) {
	if err := b.SetWriteDeadline(time.Now().Add(b.writeMax)); err != nil {
		return 0, err
	}
	return b.Conn.Write(p)
}

// Read implements io.Reader.
func (b *bufferedConn) Read(to []byte) (int, error) { return b.reader.Read(to) }

func (c *client) connectPacket() (*paho.Connect, error) {
	password, err := c.connection.password()
	if err != nil {
		return nil, err
	}
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	expiry, inFlight, packet := uint32(c.connection.session/time.Second), uint16(c.connection.inFlight), uint32(c.connection.packetBytes)
	return &paho.Connect{
		ClientID: id, KeepAlive: uint16(c.connection.keepAlive / time.Second), CleanStart: expiry == 0,
		UsernameFlag: c.connection.user != "", Username: c.connection.user, PasswordFlag: password != nil, Password: password,
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &expiry, ReceiveMaximum: &inFlight, MaximumPacketSize: &packet, RequestProblemInfo: true},
	}, nil
}

// id returns the name by which the broker knows this client, the same after a restart.
func (c *client) id() (string, error) {
	if c.connection.clientID != "" {
		return c.connection.clientID, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("this machine has no name, so that the broker would not know it again: set client-id (%w)", err)
	}
	return "tickmesh-" + host + "-" + c.connection.name, nil
}

// subscribe subscribes to all topics. Errors: none was allowed, or the connection ended.
func (c *client) subscribe(ctx context.Context, p *paho.Client) error {
	all := make([]paho.SubscribeOptions, 0, len(c.connection.subscriptions))
	for _, s := range c.connection.subscriptions {
		all = append(all, paho.SubscribeOptions{Topic: c.connection.filterOf(s), QoS: s.qos, RetainHandling: s.retainHandling(c.connection.share)})
	}
	answer, err := c.askFor(ctx, p, all)
	if err != nil {
		return err
	}
	refused := 0
	for i, code := range answer.Reasons {
		if code >= firstError && i < len(all) {
			refused++
			c.logger.Warn("MQTT: the broker does not allow a subscription: let its access list say so for this user, or take the topic out of the file",
				"connection", c.connection.name, "topic", all[i].Topic, "answer", wordOf(code))
		}
	}
	c.counts.subscriptionsRefused.Store(int64(refused))
	if refused == len(all) {
		return errors.New("the broker allows none of the subscriptions")
	}
	if len(c.obsolete) > 0 {
		if _, err := p.Unsubscribe(ctx, &paho.Unsubscribe{Topics: c.obsolete}); err != nil {
			c.logger.Warn("MQTT: earlier subscriptions could not be ended; their messages are refused", "connection", c.connection.name, "error", err)
		}
		c.obsolete = nil
	}
	return nil
}

// askFor sends the subscriptions, some times where the broker mistakes the number of the packet for that of a message of
// the session that is not acknowledged yet, as brokers do that number both directions as one. Errors: no answer came.
func (c *client) askFor(ctx context.Context, p *paho.Client, all []paho.SubscribeOptions) (*paho.Suback, error) {
	for tries := 1; ; tries++ {
		answer, err := p.Subscribe(ctx, &paho.Subscribe{Subscriptions: all})
		if answer == nil {
			return nil, cmp.Or(err, errors.New("the broker did not answer to the subscriptions"))
		}
		if !slices.Contains(answer.Reasons, codeNumberInUse) || tries == subscribeTriesMax {
			return answer, nil
		}
		timer := time.NewTimer(10 * ackInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// filterOf returns the filter that the broker is told.
func (c *connection) filterOf(s *subscription) string {
	if c.share == "" {
		return s.pattern.filter()
	}
	return "$share/" + c.share + "/" + s.pattern.filter()
}

// retainHandling returns when the broker sends what it has kept: at a new subscription, or never. With shared ones it
// never does.
func (s *subscription) retainHandling(share string) byte {
	const ifNew, never = 1, 2
	if s.retained && share == "" {
		return ifNew
	}
	return never
}
