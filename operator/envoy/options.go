package envoy

import (
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
)

// ErrOptions marks options from which no configuration can be made.
var ErrOptions = errors.New("bad options of Envoy")

// Options say what stands behind Envoy, and what before it.
type Options struct {
	// Router is the name whose addresses are those of the routers.
	Router string
	// Address is the one to listen on: an IP address.
	Address string
	// HTTPPort, GRPCPort, PutPort and LinePort are those of the routers, and of Envoy.
	HTTPPort, GRPCPort, PutPort, LinePort int
	// StatusPort has GET /ready and GET /stats/prometheus, and nothing else.
	StatusPort int
	// AdminPort is Envoy's own, on the loopback only.
	AdminPort int
	// ConnectionsMax bounds the clients' connections, of all protocols together.
	ConnectionsMax int
	// AccessLog writes a line of JSON for each request and each TCP connection to
	// standard output.
	AccessLog bool
	// Edge is TLS towards clients; nil: none.
	Edge *Edge
	// Upstream is TLS towards routers; nil: none.
	Upstream *Upstream
}

// Edge is TLS towards clients. Envoy reads the files again when they are replaced.
type Edge struct {
	Folder string // has tls.crt and tls.key; with ClientCA also ca.crt
	// ClientCA asks clients for a certificate of ca.crt.
	ClientCA bool
	// Secrets is the folder that has the files which Secrets returns.
	Secrets string
}

// Upstream is TLS towards routers.
type Upstream struct {
	Folder     string // has ca.crt, the CA of the routers' certificates
	ServerName string // which the certificates are for
	Secrets    string // the folder that has the files which Secrets returns
}

// Defaults of Options.
const (
	StatusPortDefault     = 9902
	AdminPortDefault      = 9901
	ConnectionsMaxDefault = 10_000
)

// ClientListeners returns the names of the listeners for clients, which their statistics
// have, too.
func ClientListeners() []string { return []string{"http", "grpc", "put", "line"} }

var hostname = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// Validate checks what goes into the text of the configuration. Errors: ErrOptions.
func (o Options) Validate() error {
	if !hostname.MatchString(o.Router) {
		return fmt.Errorf("%w: router %q is not a host name", ErrOptions, o.Router)
	}
	if net.ParseIP(o.Address) == nil {
		return fmt.Errorf("%w: address %q is not an IP address", ErrOptions, o.Address)
	}
	used := map[int]string{}
	for _, port := range []struct {
		name   string
		number int
	}{
		{"HTTP", o.HTTPPort}, {"gRPC", o.GRPCPort}, {"put", o.PutPort}, {"line", o.LinePort}, {"status", o.StatusPort}, {"admin", o.AdminPort},
	} {
		if port.number < 1 || port.number > 65535 {
			return fmt.Errorf("%w: %s port %d; expected 1 to 65535", ErrOptions, port.name, port.number)
		}
		if other := used[port.number]; other != "" {
			return fmt.Errorf("%w: port %d is both the %s and the %s port", ErrOptions, port.number, other, port.name)
		}
		used[port.number] = port.name
	}
	if o.ConnectionsMax < 1 {
		return fmt.Errorf("%w: %d connections; expected at least 1", ErrOptions, o.ConnectionsMax)
	}
	if o.Edge != nil && !(plainPath(o.Edge.Folder) && plainPath(o.Edge.Secrets)) {
		return fmt.Errorf("%w: folders %q and %q; expected absolute, clean paths", ErrOptions, o.Edge.Folder, o.Edge.Secrets)
	}
	if u := o.Upstream; u != nil && !(plainPath(u.Folder) && plainPath(u.Secrets) && hostname.MatchString(u.ServerName)) {
		return fmt.Errorf("%w: folders %q and %q, server name %q; expected absolute, clean paths and a host name", ErrOptions, u.Folder, u.Secrets, u.ServerName)
	}
	return nil
}

var pathCharacters = regexp.MustCompile(`^/[A-Za-z0-9._/-]+$`)

func plainPath(p string) bool { return pathCharacters.MatchString(p) && path.Clean(p) == p }
