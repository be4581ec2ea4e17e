// Package origin decides which requests of browsers a server takes. A browser sends what any
// page tells it to, from inside the user's network and with the passwords and certificates
// that it keeps, so a server on the loopback is open to the whole web unless it looks at who
// asks:
//
//   - Host, against DNS rebinding: a page of evil.example, whose name suddenly stands for
//     127.0.0.1, is of the same origin as the server to the browser. Its Host still says
//     evil.example. Taken are addresses, localhost, names that nobody can register in the
//     public DNS (without a dot, and those of Kubernetes' services), the machine's own name,
//     those of the server's certificate, and what the operator names. Over TLS, too: a client
//     may verify no certificate, or reach another server by a connection that it has.
//   - Sec-Fetch-Site and Origin, against pages of other origins. Scripts cannot set either.
//
// What is no browser sends neither header of the second kind, and is taken if its Host is.
// The rules hold with and without users: credentials that a browser adds by itself say nothing
// about the page.
package origin

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
)

// Errors of Policy.Check.
var (
	// ErrHost: the request names another server. Over HTTP it is 421.
	ErrHost = errors.New("this server is not asked by that name: use its address, or name it by --http-hosts")
	// ErrPage: the request is of a page of another origin. Over HTTP it is 403.
	ErrPage = errors.New("pages of another origin may not ask this server: name the origin by --cors-origins")
	// ErrReadOnly: the page was let in by "*", which is for reading. Over HTTP it is 403.
	ErrReadOnly = errors.New("--cors-origins '*' lets pages read: one that writes or deletes has to be named there")
	// ErrOptions marks options that cannot work.
	ErrOptions = errors.New("origin options")
)

// Options configure a Policy.
type Options struct {
	// Hosts are names by which the server is asked, without a port, besides those that
	// always are taken; "*.example.com" stands for all names below, "*" for all there are.
	Hosts []string
	// Origins are those whose pages are let in, such as "https://grafana.example". "*" lets
	// every page read.
	Origins []string
	// Hostname is the name of the machine; empty: not known.
	Hostname string
	// Certificate returns the certificate by which the server is known now, whose names are taken
	// as well; nil: without TLS. It is asked where no other rule takes a name.
	Certificate func() *x509.Certificate
}

// Policy is immutable.
type Policy struct {
	hosts       []string // in lower case
	suffixes    []string // in lower case, with the dot
	anyHost     bool
	certificate func() *x509.Certificate // nil: without TLS
	origins     []string
	anyOrigin   bool
}

// suffixesAlways are of names that the public DNS cannot have.
var suffixesAlways = []string{".localhost", ".svc", ".svc.cluster.local"} //nolint:gochecknoglobals // a constant list

// New makes a Policy. Errors: ErrOptions.
func New(o Options) (*Policy, error) {
	p := &Policy{suffixes: suffixesAlways, certificate: o.Certificate}
	if o.Hostname != "" {
		p.hosts = append(p.hosts, strings.ToLower(o.Hostname))
	}
	for _, host := range o.Hosts {
		host = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(host), "."))
		suffix, below := strings.CutPrefix(host, "*")
		switch {
		case host == "*":
			p.anyHost = true
		case host == "" || below && !strings.HasPrefix(suffix, ".") || strings.ContainsAny(suffix, "*/:@ "):
			return nil, fmt.Errorf("%w: %q is no name of a host: expected a name without a port, *.NAME or *", ErrOptions, host)
		case below:
			p.suffixes = append(p.suffixes[:len(p.suffixes):len(p.suffixes)], suffix)
		default:
			p.hosts = append(p.hosts, host)
		}
	}
	for _, origin := range o.Origins {
		if origin == "*" {
			p.anyOrigin = true
			continue
		}
		p.origins = append(p.origins, strings.TrimSuffix(origin, "/"))
	}
	return p, nil
}

// Request is what a policy looks at. The fields are those of the headers but for the first
// two; empty: there is none.
type Request struct {
	Reads bool // by GET or HEAD, by which nothing is changed
	// Target is the host of a target in absolute form, which counts beside Host.
	Target        []byte
	Host          []byte
	Origin        []byte
	ForwardedHost []byte // X-Forwarded-Host: what the browser asked for, before a proxy changed it
	FetchSite     []byte // Sec-Fetch-Site
	FetchMode     []byte // Sec-Fetch-Mode
	FetchDest     []byte // Sec-Fetch-Dest
}

// Sender is what may be behind a request.
type Sender uint8

// The senders.
const (
	Own   Sender = iota // no browser, or a page of this server
	Named               // a page of an origin in Options.Origins
	Any                 // a page that "*" lets in, which may read only
)

// Check returns who may have sent a request. Errors: ErrHost, ErrPage.
func (p *Policy) Check(r *Request) (Sender, error) {
	if !p.isHost(r.Host) || !p.isHost(r.Target) {
		return Own, ErrHost
	}
	if len(r.Origin) == 0 && len(r.FetchSite) == 0 {
		return Own, nil
	}
	if p.isNamed(r.Origin) {
		return Named, nil
	}
	switch string(r.FetchSite) {
	case "same-origin", "none":
		return Own, nil
	case "": // an old browser, or one that does without where there is no TLS
		if len(r.Origin) == 0 || isOf(r.Origin, r.Host) || isOf(r.Origin, r.ForwardedHost) {
			return Own, nil
		}
	default:
		if r.Reads && string(r.FetchMode) == "navigate" && string(r.FetchDest) == "document" {
			return Own, nil // a click that leads here shows the page nothing
		}
	}
	if p.anyOrigin && len(r.Origin) > 0 {
		return Any, nil
	}
	return Own, ErrPage
}

// isNamed reports whether an origin is one of Options.Origins.
func (p *Policy) isNamed(origin []byte) bool {
	for _, o := range p.origins {
		if len(o) == len(origin) && strings.EqualFold(o, string(origin)) {
			return true
		}
	}
	return false
}

// isHost reports whether a Host, which may have a port, is a name of this server.
func (p *Policy) isHost(host []byte) bool {
	if p.anyHost || len(host) == 0 || host[0] == '[' { // an address of IPv6
		return true
	}
	if colon := bytes.LastIndexByte(host, ':'); colon >= 0 {
		host = host[:colon]
	}
	host = bytes.TrimSuffix(host, []byte("."))
	last := host[bytes.LastIndexByte(host, '.')+1:]
	if len(last) == len(host) || endsInNumber(last) {
		return true
	}
	for _, name := range p.hosts {
		if len(name) == len(host) && strings.EqualFold(name, string(host)) {
			return true
		}
	}
	for _, suffix := range p.suffixes {
		if at := len(host) - len(suffix); at > 0 && strings.EqualFold(suffix, string(host[at:])) {
			return true
		}
	}
	if p.certificate == nil {
		return false
	}
	c := p.certificate()
	return c != nil && c.VerifyHostname(string(host)) == nil
}

// endsInNumber reports whether a host whose last label this is is an address of IPv4 to
// browsers and never asked of the DNS (WHATWG URL, "ends in a number checker").
func endsInNumber(label []byte) bool {
	for _, b := range label {
		if b < '0' || b > '9' {
			return false
		}
	}
	return len(label) > 0
}

// isOf reports whether an origin is of a host, which may have a port.
func isOf(origin, host []byte) bool {
	_, of, ok := bytes.Cut(origin, []byte("://"))
	return ok && len(of) > 0 && bytes.EqualFold(of, host)
}
