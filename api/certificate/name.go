package certificate

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ErrName marks a certificate whose name is malformed or ambiguous.
var ErrName = errors.New("not a valid name in a certificate")

// Role is what a process of a cluster is there for.
type Role string

// Roles.
const (
	RoleCA       Role = "authority" // signs only certificates with a name, or for a role without calls
	RoleNode     Role = "node"
	RoleRouter   Role = "router"
	RoleOperator Role = "operator" // commands of an administrator, such as rescue-map
	RoleEtcd     Role = "etcd"
	RoleClient   Role = "client" // of the public ports
)

// Roles returns the roles of processes, in the order of their lists.
func Roles() []Role { return []Role{RoleNode, RoleRouter, RoleEtcd, RoleOperator, RoleClient} }

func (r Role) known() bool {
	switch r {
	case RoleCA, RoleNode, RoleRouter, RoleEtcd, RoleOperator, RoleClient:
		return true
	}
	return false
}

// AnyID as the ID of a Name stands for every ID of its role: nodes may share a certificate,
// as the pods of one template do where somebody else makes the certificates.
const AnyID = "*"

const scheme = "tickmesh"

// Name is the identity of a process in its certificate.
type Name struct {
	Cluster string
	Role    Role
	ID      string // of the node, or whatever tells holders apart; empty: any holder of the role
}

// partBytesMax bounds a cluster's name and an id: the longest name of the DNS.
const partBytesMax = 253

// validPart reports whether a text may be a cluster's name or an id: letters, digits, and
// inner dots, hyphens and underscores. It is asked at each call, so it is no regexp.
func validPart(s string) bool {
	if len(s) == 0 || len(s) > partBytesMax {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || i == len(s)-1 || c != '.' && c != '-' && c != '_') {
			return false
		}
	}
	return true
}

// Validate checks each part of the name. Errors: ErrName.
func (n Name) Validate() error {
	switch {
	case !validPart(n.Cluster):
		return fmt.Errorf("%w: cluster %q", ErrName, n.Cluster)
	case !n.Role.known():
		return fmt.Errorf("%w: role %q", ErrName, n.Role)
	case n.ID != "" && n.ID != AnyID && !validPart(n.ID):
		return fmt.Errorf("%w: id %q", ErrName, n.ID)
	case n.Role == RoleNode && n.ID == "":
		return fmt.Errorf("%w: a node without an id", ErrName)
	}
	return nil
}

// String returns the name as certificates have it.
func (n Name) String() string { return n.url().String() }

func (n Name) url() *url.URL {
	path := "/" + string(n.Role)
	if n.ID != "" {
		path += "/" + n.ID
	}
	return &url.URL{Scheme: scheme, Host: n.Cluster, Path: path, RawPath: path} // "*" as it is
}

// Is reports whether the name lets its holder act as id of a role in a cluster.
func (n Name) Is(cluster string, role Role, id string) bool {
	return n.Cluster == cluster && n.Role == role && (n.ID == AnyID || n.ID == id)
}

// NameOf returns the name in a certificate. Without one the name is the zero value. More
// than one is an error, because each caller would have to guess which one counts. Errors:
// ErrName.
func NameOf(c *x509.Certificate) (Name, error) { return nameAmong(c.URIs, c.Subject.CommonName) }

// nameAmong returns the only name among the URIs of a certificate or a request for one.
func nameAmong(uris []*url.URL, subject string) (name Name, err error) {
	found := false
	for _, u := range uris {
		if u.Scheme != scheme {
			continue
		}
		if found {
			return Name{}, fmt.Errorf("%w: %q has several", ErrName, subject)
		}
		found = true
		if name, err = nameOf(u); err != nil {
			return Name{}, err
		}
	}
	return name, nil
}

func nameOf(u *url.URL) (Name, error) {
	role, id, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	n := Name{Cluster: u.Host, Role: Role(role), ID: id}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return Name{}, fmt.Errorf("%w: %q", ErrName, u)
	}
	return n, n.Validate()
}

// Names reports whether a CA in a verified chain names what it signs, so that a
// certificate of it without a name was not left by an older version.
func Names(chains [][]*x509.Certificate) bool {
	for _, chain := range chains {
		for _, c := range chain[min(1, len(chain)):] {
			if name, err := NameOf(c); err != nil || name.Role == RoleCA {
				return true
			}
		}
	}
	return false
}
