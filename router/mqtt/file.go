package mqtt

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/loopback"
	"github.com/tickmesh/tickmesh/api/rulefile"
)

// Bounds and defaults of connections.
const (
	connectionsMax    = 64
	urlsMax           = 16
	subscriptionsMax  = 1000
	clientIDBytesMax  = 128
	inFlightDefault   = 256
	inFlightMax       = 10_000
	packetDefault     = 64 << 10
	packetMin         = 1 << 10
	packetMax         = 1 << 20
	sessionDefault    = time.Hour
	sessionMax        = 365 * 24 * time.Hour
	keepAliveDefault  = 30 * time.Second
	keepAliveMin      = 5 * time.Second
	keepAliveMax      = time.Hour
	shareDefault      = "tickmesh"
	portPlain         = "1883"
	portTLS           = "8883"
	schemePlain       = "mqtt"
	schemeTLS         = "mqtts"
	passwordBytesMax  = 4 << 10
	connectionNameMax = 64
)

// connection is what the file says of one broker.
type connection struct {
	name          string
	urls          []*url.URL
	clientID      string // empty: made of the host's name
	user          string
	passwordFile  string
	plainPassword bool // it may go to brokers without TLS
	caFile        string
	certFile      string
	keyFile       string
	session       time.Duration
	keepAlive     time.Duration
	inFlight      int // messages that are not acknowledged: MQTT's receive maximum
	packetBytes   int
	share         string // group of shared subscriptions; empty: none
	subscriptions []*subscription
}

// File is what a file of connections says. It is not changed once it is made.
type File struct {
	connections []*connection
}

// Parser reads files of connections.
type Parser struct {
	// Shared is for routers of a cluster: their subscriptions are shared unless the file says otherwise.
	Shared bool
}

// Parse reads the text of a file; the name is for messages. Errors: rulefile.ErrFile, with all problems of the file.
func (p Parser) Parse(name string, text []byte) (*File, error) {
	top, err := rulefile.Parse(name, text)
	if err != nil {
		return nil, err
	}
	f := &File{}
	err = top.Fields(map[string]func(rulefile.Value) error{
		"connections": func(v rulefile.Value) (err error) { f.connections, err = p.readConnections(v); return err },
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (p Parser) readConnections(v rulefile.Value) (all []*connection, err error) {
	entries, err := v.Entries()
	problems := []error{err}
	if len(entries) > connectionsMax {
		return nil, v.Errorf("there are %d connections, at most %d are taken", len(entries), connectionsMax)
	}
	for _, e := range entries {
		c, err := p.readConnection(e)
		all, problems = append(all, c), append(problems, err)
	}
	return all, errors.Join(problems...)
}

func (p Parser) readConnection(e rulefile.Entry) (*connection, error) {
	c := &connection{name: e.Key, session: sessionDefault, keepAlive: keepAliveDefault, inFlight: inFlightDefault, packetBytes: packetDefault}
	if p.Shared {
		c.share = shareDefault
	}
	text := func(to *string) func(rulefile.Value) error {
		return func(v rulefile.Value) (err error) { *to, err = v.Text(); return err }
	}
	err := e.Value.Fields(map[string]func(rulefile.Value) error{
		"urls":            c.readURLs,
		"client-id":       text(&c.clientID),
		"user":            text(&c.user),
		"password-file":   text(&c.passwordFile),
		"plain-password":  func(v rulefile.Value) (err error) { c.plainPassword, err = readWord(v, booleans); return err },
		"ca-file":         text(&c.caFile),
		"cert-file":       text(&c.certFile),
		"key-file":        text(&c.keyFile),
		"share":           text(&c.share),
		"session-expiry":  func(v rulefile.Value) error { return readSpan(v, &c.session, 0, sessionMax) },
		"keep-alive":      func(v rulefile.Value) error { return readSpan(v, &c.keepAlive, keepAliveMin, keepAliveMax) },
		"receive-maximum": func(v rulefile.Value) error { return readCount(v, &c.inFlight, 1, inFlightMax, v.Count) },
		"packet-bytes-max": func(v rulefile.Value) error {
			return readCount(v, &c.packetBytes, packetMin, packetMax, v.Bytes)
		},
		"subscriptions": c.readSubscriptions,
	})
	return c, cmp.Or(err, c.check(e.Value))
}

// check refuses what does not go together.
func (c *connection) check(v rulefile.Value) error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, v.Errorf(format, args...)) }
	if err := checkName(c.name); err != nil || len(c.name) > connectionNameMax {
		wrong("a connection's name has letters, digits and _, at most %d", connectionNameMax)
	}
	if len(c.urls) == 0 {
		wrong("there is no broker: add urls: [mqtts://HOST]")
	}
	if len(c.subscriptions) == 0 {
		wrong("there is nothing to read: add a list subscriptions")
	}
	if len(c.clientID) > clientIDBytesMax {
		wrong("client-id is longer than %d bytes", clientIDBytesMax)
	}
	if (c.certFile == "") != (c.keyFile == "") {
		wrong("cert-file and key-file belong together: name both, or neither")
	}
	if c.passwordFile != "" && c.user == "" {
		wrong("password-file needs user, too")
	}
	if err := checkShare(c.share); err != nil {
		wrong("share: %w", err)
	}
	for _, u := range c.urls {
		if u.Scheme == schemeTLS {
			continue
		}
		if c.caFile != "" || c.certFile != "" {
			wrong("%s has no TLS, for which ca-file and cert-file are: write %s://", u, schemeTLS)
		}
		if c.passwordFile != "" && !c.plainPassword && !loopback.IsAddress(u.Host) {
			wrong("%s: the password would cross the network for everybody to read: write %s://, or plain-password: true where that network is yours alone", u, schemeTLS)
		}
	}
	return errors.Join(problems...)
}

func checkShare(group string) error {
	for _, r := range group {
		if r <= ' ' || r > '~' || r == '/' || r == '+' || r == '#' {
			return fmt.Errorf("%q is no name of a group: expected letters, digits, - and _; \"\" switches sharing off", group)
		}
	}
	return nil
}

func (c *connection) readURLs(v rulefile.Value) error {
	list, err := v.List()
	problems := []error{err}
	if len(list) > urlsMax {
		return v.Errorf("there are %d URLs, at most %d are taken", len(list), urlsMax)
	}
	for _, item := range list {
		text, err := item.Text()
		if err == nil {
			var u *url.URL
			if u, err = parseURL(text); err == nil {
				c.urls = append(c.urls, u)
			} else {
				err = item.Errorf("%w", err)
			}
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// parseURL reads the URL of a broker, and adds the port that the scheme stands for. Errors do not show the URL, which
// may have a password.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != schemePlain && u.Scheme != schemeTLS:
		return nil, fmt.Errorf("expected %s://HOST[:PORT] or, for TLS, %s://HOST[:PORT]", schemePlain, schemeTLS)
	case u.User != nil:
		return nil, errors.New("take the user out of the URL: there are the keys user and password-file")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("expected nothing behind the port")
	}
	port := cmp.Or(u.Port(), map[string]string{schemePlain: portPlain, schemeTLS: portTLS}[u.Scheme])
	return &url.URL{Scheme: u.Scheme, Host: net.JoinHostPort(u.Hostname(), port)}, nil
}

func readSpan(v rulefile.Value, to *time.Duration, least, most time.Duration) error {
	d, err := v.Span()
	if err == nil && (d < least || d > most) {
		err = v.Errorf("%v: expected %v to %v", d, least, most)
	}
	*to = d
	return err
}

func readCount(v rulefile.Value, to *int, least, most int64, read func() (int64, error)) error {
	n, err := read()
	if err == nil && (n < least || n > most) {
		err = v.Errorf("%d: expected %d to %d", n, least, most)
	}
	*to = int(min(n, math.MaxInt32))
	return err
}

// tlsConfig reads the files for TLS. They are read for each connection, so that new ones count at the next.
func (c *connection) tlsConfig(host string) (*tls.Config, error) {
	o := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if c.caFile != "" {
		pool, err := readCA(c.caFile)
		if err != nil {
			return nil, err
		}
		o.RootCAs = pool
	}
	if c.certFile != "" {
		pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
		if err != nil {
			return nil, fmt.Errorf("cert-file, key-file: %w", err)
		}
		o.Certificates = []tls.Certificate{pair}
	}
	return o, nil
}

// find returns the subscription that a topic belongs to: the first that matches.
func (c *connection) find(topic string) *subscription {
	at := slices.IndexFunc(c.subscriptions, func(s *subscription) bool { _, ok := s.pattern.match(topic); return ok })
	if at < 0 {
		return nil
	}
	return c.subscriptions[at]
}
