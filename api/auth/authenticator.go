package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/limitedlog"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/token"
)

// File follows a file of users.
type File = rulefile.File[*Rules]

// OpenFile reads a file of users for the first time; have its Run follow it. Errors: those
// of reading the file, and of Parse.
func OpenFile(path string, logger *slog.Logger) (*File, error) {
	return rulefile.Open(rulefile.Options{Kind: "auth", Path: path, Logger: logger}, Parse)
}

// Bounds of what is remembered.
const (
	verifiedMax = 4096 // credentials
	refusedMax  = 1024 // passwords
)

// Options of an Authenticator. Current is required.
type Options struct {
	// Current returns the rules of now, such as File.Current. Rules that have not changed are
	// the same pointer.
	Current    func() *Rules
	Tokens     *token.Registry  // tokens that are made while the process runs; nil: none are
	Processors *processor.Pool  // has the slots in which passwords are checked; nil: nothing bounds them
	Logger     *slog.Logger     // nil: nothing is logged
	Clock      func() time.Time // nil: time.Now
}

// Authenticator implements access.Authenticator. It is a prometheus.Collector.
type Authenticator struct {
	options Options
	gate    *gate
	seed    [sha256.Size]byte // so that what is remembered means nothing elsewhere
	checks  singleflight.Group
	issuers issuers

	memory struct {
		sync.RWMutex
		rules    *Rules // that the rest belongs to
		verified map[key]*principal
		refused  map[key]struct{} // passwords
	}
	log limitedlog.Log // of callers that are refused

	checked, missing, refused, busy atomic.Int64
	described                       *prometheus.Desc
	issuerMetrics                   issuerMetrics
}

// key is a keyed hash of credentials.
type key [sha256.Size]byte

// New makes an Authenticator.
func New(o Options) *Authenticator {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	a := &Authenticator{options: o, log: limitedlog.Log{Logger: o.Logger, Clock: o.Clock}, gate: newGate(o.Processors), issuerMetrics: newIssuerMetrics(), described: prometheus.NewDesc("tickmesh_auth_total",
		"Callers whose credentials had to be looked at, by what became of it; those that are remembered do not count.", []string{"outcome"}, nil)}
	_, _ = rand.Read(a.seed[:]) // it never fails: see its documentation
	return a
}

// Named implements access.Authenticator.
func (a *Authenticator) Named(name string) (access.Principal, error) {
	if a.options.Current().users[name] == nil {
		return nil, fmt.Errorf("%w: there is no user %q", access.ErrUnauthenticated, name)
	}
	return a.principal(name, proof{kind: byNothing}), nil
}

func (a *Authenticator) principal(name string, p proof) *principal {
	return &principal{current: a.options.Current, tokens: a.options.Tokens, name: name, proof: p}
}

// Authenticate implements access.Authenticator.
func (a *Authenticator) Authenticate(ctx context.Context, c access.Credentials) (access.Principal, error) {
	p, err := a.authenticate(ctx, c)
	if err != nil {
		err = a.tried(c, err)
		a.failed(c, err)
		return nil, err
	}
	return p, nil
}

func (a *Authenticator) authenticate(ctx context.Context, c access.Credentials) (*principal, error) {
	rules := a.options.Current()
	switch {
	case c.User != "":
		return a.byPassword(ctx, rules, c.From, []byte(c.User), []byte(c.Password))
	case c.Token != "":
		return a.byToken(ctx, rules, c.From, []byte(c.Token))
	case len(c.Authorization) > headerBytesMax:
		return nil, access.ErrUnauthenticated
	case len(c.Authorization) > 0:
		return a.byHeader(ctx, rules, c.From, c.Authorization)
	case c.Certificate != nil:
		u, name := rules.byCertificate(c.Certificate)
		if u == nil {
			return nil, access.ErrUnauthenticated
		}
		return a.principal(u.name, proof{kind: byTLSName, tlsName: name}), nil
	}
	return nil, access.ErrMissing
}

func (a *Authenticator) byHeader(ctx context.Context, rules *Rules, from net.Addr, header []byte) (*principal, error) {
	var room [basicBytesMax]byte
	s, ok := parseHeader(header, &room)
	if !ok {
		return nil, access.ErrUnauthenticated
	}
	if len(s.token) > 0 {
		if p, err := a.byToken(ctx, rules, from, s.token); err == nil || len(s.user) == 0 {
			return p, err
		}
	}
	return a.byPassword(ctx, rules, from, s.user, s.password)
}

func (a *Authenticator) byToken(ctx context.Context, rules *Rules, from net.Addr, secret []byte) (*principal, error) {
	u, sum := rules.byToken(secret)
	if u == nil {
		if id, ok := token.ParseID(secret); ok && a.options.Tokens != nil {
			return a.byMadeToken(rules, from, id, sum)
		}
		return a.byJWT(ctx, rules, secret, sum)
	}
	k := a.key('t', sum[:], nil)
	if p := a.remembered(rules, k); p != nil {
		return p, nil
	}
	a.checked.Add(1)
	p := a.principal(u.name, proof{kind: byToken, token: sum})
	a.remember(rules, k, p)
	return p, nil
}

// byPassword checks a password, once for all who show it at the same time. What is
// remembered goes by name and password, so that no variant of a header is another entry.
func (a *Authenticator) byPassword(ctx context.Context, rules *Rules, from net.Addr, user, secret []byte) (*principal, error) {
	if len(user) > nameBytesMax || len(secret) > passwordBytesMax {
		return nil, access.ErrUnauthenticated
	}
	k := a.key('p', user, secret)
	if p := a.remembered(rules, k); p != nil {
		return p, nil
	}
	if a.isRefused(rules, k) {
		return nil, access.ErrUnauthenticated
	}
	return a.checkPassword(ctx, rules, from, k, string(user), string(secret))
}

// checkPassword checks a password that is not remembered under its key.
func (a *Authenticator) checkPassword(ctx context.Context, rules *Rules, from net.Addr, k key, name, password string) (*principal, error) {
	// The check goes on for the others when one of them gives up.
	done := a.checks.DoChan(string(k[:]), func() (any, error) {
		hash := ""
		if u := rules.users[name]; u != nil {
			hash = u.passwordHash
		}
		err := a.gate.check(context.WithoutCancel(ctx), networkOf(from), hash, password, rules.costMax)
		if errors.Is(err, access.ErrUnauthenticated) {
			a.refuse(rules, k)
		}
		if err != nil {
			return nil, err
		}
		a.checked.Add(1)
		p := a.principal(name, proof{kind: byPassword, hash: hash})
		a.remember(rules, k, p)
		return p, nil
	})
	select {
	case r := <-done:
		p, _ := r.Val.(*principal)
		return p, r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// keyBytesMax is what a key is made of at most: its seed, kind, length and parts.
const keyBytesMax = sha256.Size + 1 + 8 + nameBytesMax + passwordBytesMax

func (a *Authenticator) key(kind byte, first, second []byte) key {
	var room [keyBytesMax]byte
	b := append(append(room[:0], a.seed[:]...), kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(first)))
	return sha256.Sum256(append(append(b, first...), second...))
}

func (a *Authenticator) remembered(rules *Rules, k key) *principal {
	a.memory.RLock()
	defer a.memory.RUnlock()
	if a.memory.rules != rules {
		return nil
	}
	return a.memory.verified[k]
}

func (a *Authenticator) isRefused(rules *Rules, k key) bool {
	a.memory.RLock()
	defer a.memory.RUnlock()
	_, refused := a.memory.refused[k]
	return refused && a.memory.rules == rules
}

// keepLocked makes the memory that of some rules, and reports whether it is: it never goes back
// to older ones.
func (a *Authenticator) keepLocked(rules *Rules) bool {
	if a.memory.rules == rules {
		return true
	}
	if rules != a.options.Current() {
		return false
	}
	a.memory.rules, a.memory.verified, a.memory.refused = rules, map[key]*principal{}, map[key]struct{}{}
	return true
}

func (a *Authenticator) remember(rules *Rules, k key, p *principal) {
	a.memory.Lock()
	defer a.memory.Unlock()
	if !a.keepLocked(rules) {
		return
	}
	dropOne(a.memory.verified, verifiedMax)
	a.memory.verified[k] = p
}

func (a *Authenticator) refuse(rules *Rules, k key) {
	a.memory.Lock()
	defer a.memory.Unlock()
	if !a.keepLocked(rules) {
		return
	}
	dropOne(a.memory.refused, refusedMax)
	a.memory.refused[k] = struct{}{}
}

// dropOne makes room in a map that is full; which entry goes is left to chance.
func dropOne[V any](m map[key]V, most int) {
	if len(m) < most {
		return
	}
	for k := range m {
		delete(m, k)
		return
	}
}

// failed counts and logs.
func (a *Authenticator) failed(c access.Credentials, err error) {
	switch {
	case errors.Is(err, access.ErrBusy):
		a.busy.Add(1)
	case errors.Is(err, access.ErrMissing):
		a.missing.Add(1)
		return // a browser or a probe that does not know yet
	default:
		a.refused.Add(1)
	}
	a.log.Warn("a caller is refused", "from", hostOf(c.From), "error", err)
}

// hostOf returns an address without its port; empty: it is not known.
func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// networkOf returns what counts as one address where a flood is bounded: the host, and of IPv6
// its /64, all of which one host may use.
func networkOf(a net.Addr) string {
	host := hostOf(a)
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().Is4() {
		return host
	}
	const hostBits = 64
	network, err := ip.WithZone("").Prefix(hostBits)
	if err != nil {
		return host
	}
	return network.String()
}

// Describe implements prometheus.Collector.
func (a *Authenticator) Describe(to chan<- *prometheus.Desc) {
	to <- a.described
	to <- a.issuerMetrics.keys
	to <- a.issuerMetrics.fetches
}

// Collect implements prometheus.Collector.
func (a *Authenticator) Collect(to chan<- prometheus.Metric) {
	for _, c := range []struct {
		outcome string
		count   *atomic.Int64
	}{{"ok", &a.checked}, {"missing", &a.missing}, {"refused", &a.refused}, {"busy", &a.busy}} {
		to <- prometheus.MustNewConstMetric(a.described, prometheus.CounterValue, float64(c.count.Load()), c.outcome)
	}
	a.collectIssuers(to)
}
