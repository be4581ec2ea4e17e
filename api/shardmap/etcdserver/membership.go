package etcdserver

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/tickmesh/tickmesh/api/certificate"
)

// Membership describes how a server belongs to a cluster of several. What a data folder
// knows already goes before it: then only the name and the addresses count.
type Membership struct {
	Name            string   // of this member
	AdvertiseClient string   // URL at which clients reach this member
	Members         []Member // all of the cluster, this one among them
	Existing        bool     // the cluster runs already and has been told of this member; else all members make it together
	Token           string   // the same for all members, and another one for each cluster that is made
}

// Member is a member of a cluster.
type Member struct {
	Name string
	Peer string // URL at which other members reach it
}

// ParseMembers reads members as name=URL with commas between. Errors: ErrStart.
func ParseMembers(text string) ([]Member, error) {
	var members []Member
	for _, part := range strings.Split(text, ",") {
		name, peer, found := strings.Cut(part, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%w: member %q: expected name=URL", ErrStart, part)
		}
		if _, err := peerURL(peer); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(members, func(m Member) bool { return m.Name == name }) {
			return nil, fmt.Errorf("%w: member %s is named twice", ErrStart, name)
		}
		members = append(members, Member{name, peer})
	}
	return members, nil
}

func peerURL(text string) (url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" || u.Path != "" {
		return url.URL{}, fmt.Errorf("%w: URL %q: expected http:// or https://, a host and a port", ErrStart, text)
	}
	return *u, nil
}

// apply writes a membership into a configuration. Errors: ErrStart.
func (m *Membership) apply(c *embed.Config) error {
	if m == nil {
		return nil
	}
	own := slices.IndexFunc(m.Members, func(other Member) bool { return other.Name == m.Name })
	if own < 0 {
		return fmt.Errorf("%w: %q is not among the members", ErrStart, m.Name)
	}
	peer, err := peerURL(m.Members[own].Peer)
	if err != nil {
		return err
	}
	client, err := peerURL(m.AdvertiseClient)
	if err != nil {
		return err
	}
	c.Name, c.InitialClusterToken = m.Name, m.Token
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = []url.URL{peer}, []url.URL{client}
	named := make([]string, len(m.Members))
	for i, member := range m.Members {
		named[i] = member.Name + "=" + member.Peer
	}
	c.InitialCluster = strings.Join(named, ",")
	if m.Existing {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	return nil
}

// TLSFiles name the PEM files of a listener. The certificate and its key are read again
// for each connection; the CAs only at the start.
type TLSFiles struct{ Cert, Key, CA string }

// info asks the other side for a certificate of the CA, that of one of the hosts where
// there are some. Which host it names is not compared with where a connection comes from: addresses
// behind names change.
func (f TLSFiles) info(hosts ...string) transport.TLSInfo {
	if f.Cert == "" {
		return transport.TLSInfo{}
	}
	return transport.TLSInfo{
		CertFile: f.Cert, KeyFile: f.Key, TrustedCAFile: f.CA, ClientCertAuth: f.CA != "", SkipClientSANVerify: true, AllowedHostnames: hosts,
	}
}

// memberHosts returns the hosts of which members show certificates: what tells them from everybody
// else where the CAs sign that, and otherwise those of all members, which they are reached
// at and have certificates for. etcd itself asks for a certificate of a CA only.
func memberHosts(caFile string, members []url.URL) []string {
	if text, err := os.ReadFile(caFile); err == nil { // else etcd says what is wrong
		all, err := certificate.DecodeCertificates(text)
		if err == nil && !slices.ContainsFunc(all, func(c *x509.Certificate) bool { return c.VerifyHostname(certificate.MemberHost) != nil }) {
			return []string{certificate.MemberHost}
		}
	}
	hosts := make([]string, 0, len(members))
	for _, member := range members {
		hosts = append(hosts, member.Hostname())
	}
	return hosts
}

// peers returns the URLs of all members: those that the server is told of, and those that its data
// folder knows, which goes before what it is told.
func peers(c *embed.Config) (all []url.URL, err error) {
	named, err := types.NewURLsMap(c.InitialCluster)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	for _, member := range named {
		all = append(all, member...)
	}
	return append(all, keptPeers(c.Dir)...), nil
}

// keptTimeout bounds the wait for a data folder that another process has open.
const keptTimeout = time.Second

// keptPeers returns the URLs of the members in a data folder. What is wrong with a folder
// etcd reports at its start.
func keptPeers(dataDir string) (all []url.URL) {
	path := datadir.ToBackendFileName(dataDir)
	if _, err := os.Stat(path); err != nil {
		return nil // it is a new one
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: keptTimeout})
	if err != nil {
		return nil
	}
	defer db.Close()
	_ = db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(schema.Members.Name())
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(_, text []byte) error {
			var member struct {
				URLs []string `json:"peerURLs"`
			}
			if err := json.Unmarshal(text, &member); err != nil {
				return err
			}
			for _, named := range member.URLs {
				if peer, err := peerURL(named); err == nil {
					all = append(all, peer)
				}
			}
			return nil
		})
	})
	return all
}
