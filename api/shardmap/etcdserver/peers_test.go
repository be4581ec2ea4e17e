package etcdserver_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

// authorityOf returns an authority, on request as older versions made it, and others make theirs:
// it does not tell members from everybody else.
func authorityOf(t *testing.T, older bool) *certificate.Pair {
	t.Helper()
	a, err := certificate.NewCA("home", "an authority", time.Hour, time.Now())
	must(t, err)
	if older {
		plain := *a.Certificate
		plain.SerialNumber, plain.DNSNames = big.NewInt(1), nil
		der, err := x509.CreateCertificate(rand.Reader, &plain, &plain, &a.Key.PublicKey, a.Key)
		must(t, err)
		a.Certificate, err = x509.ParseCertificate(der)
		must(t, err)
	}
	return a
}

// issue writes the files of a certificate, on request without what tells members from others.
func issue(t *testing.T, a *certificate.Pair, role certificate.Role, older bool, hosts ...string) (files etcdserver.TLSFiles, shown tls.Certificate) {
	t.Helper()
	dir := t.TempDir()
	pair, err := a.Issue(certificate.Identity{CommonName: string(role) + "-x", Hosts: hosts, Name: certificate.Name{Cluster: "home", Role: role, ID: "x"}}, time.Hour, time.Now())
	must(t, err)
	if older {
		plain := *pair.Certificate
		plain.DNSNames = certificate.HostsOf(&x509.Certificate{DNSNames: plain.DNSNames})
		der, err := x509.CreateCertificate(rand.Reader, &plain, a.Certificate, &pair.Key.PublicKey, a.Key)
		must(t, err)
		pair.Certificate, err = x509.ParseCertificate(der)
		must(t, err)
	}
	key, err := certificate.EncodeKey(pair.Key)
	must(t, err)
	files = etcdserver.TLSFiles{Cert: filepath.Join(dir, "x.crt"), Key: filepath.Join(dir, "x.key"), CA: filepath.Join(dir, "ca.crt")}
	for file, text := range map[string][]byte{
		files.Cert: certificate.EncodeCertificates(pair.Certificate), files.Key: key, files.CA: certificate.EncodeCertificates(a.Certificate),
	} {
		must(t, os.WriteFile(file, text, 0o600))
	}
	return files, *pair.TLS()
}

// ask reports whether the port for members answers who shows a certificate.
func ask(t *testing.T, address string, shown tls.Certificate) error {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		InsecureSkipVerify:   true, // whom it talks to is not asked here
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil },
	}}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get("https://" + address + "/members")
	if err == nil {
		err = response.Body.Close()
	}
	return err
}

// TestOnlyMembersComeIn: the port for members takes members' certificates only. Where the authority
// tells them from others that holds on one machine, too; otherwise for other hosts.
func TestOnlyMembersComeIn(t *testing.T) {
	for _, older := range []bool{false, true} {
		t.Run(fmt.Sprintf("older=%v", older), func(t *testing.T) {
			authority := authorityOf(t, older)
			sites := []site{newSite(t), newSite(t)}
			var members []etcdserver.Member
			for n, s := range sites {
				members = append(members, etcdserver.Member{Name: fmt.Sprintf("e%d", n), Peer: "https://" + s.peer})
			}
			var own tls.Certificate
			var all sync.WaitGroup
			for n, s := range sites {
				files, shown := issue(t, authority, certificate.RoleEtcd, older, hostOf(t, s.peer))
				own = shown
				all.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
					defer cancel()
					server, err := etcdserver.Start(ctx, etcdserver.Options{
						DataDir: s.dir, ClientAddress: s.client, PeerAddress: s.peer, PeerTLS: files, NoSync: true,
						Membership: &etcdserver.Membership{Name: members[n].Name, AdvertiseClient: "http://" + s.client, Members: members},
					})
					if err != nil {
						t.Error(err)
						return
					}
					t.Cleanup(func() { _ = server.Close() })
				})
			}
			all.Wait()
			if t.Failed() {
				return
			}
			client := connect(t, sites[0].client, sites[1].client)
			eventually(t, func(ctx context.Context) error { _, err := client.Put(ctx, "key", "value"); return err })
			peer := sites[0].peer
			if err := ask(t, peer, own); err != nil {
				t.Errorf("a member is refused: %v", err)
			}
			host := hostOf(t, peer)
			if older {
				host = "192.0.2.1" // of a member's host it is taken
			}
			for _, role := range []certificate.Role{certificate.RoleNode, certificate.RoleRouter, certificate.RoleOperator, certificate.RoleClient} {
				_, shown := issue(t, authority, role, false, host, "localhost", certificate.MemberHost)
				if err := ask(t, peer, shown); err == nil {
					t.Errorf("a %s is taken for a member", role)
				}
			}
			_, foreign := issue(t, authorityOf(t, false), certificate.RoleEtcd, false, hostOf(t, peer))
			if err := ask(t, peer, foreign); err == nil {
				t.Error("a member of another authority comes in")
			}
		})
	}
}

// TestMembersOfAnOldList: a member that the list of another does not have, because it was replaced
// since, comes in all the same: the data folder knows it.
func TestMembersOfAnOldList(t *testing.T) {
	authority := authorityOf(t, true)
	sites := []site{newSite(t), newSite(t)}
	members, files := make([]etcdserver.Member, len(sites)), make([]etcdserver.TLSFiles, len(sites))
	for n, s := range sites {
		members[n] = etcdserver.Member{Name: fmt.Sprintf("e%d", n), Peer: "https://" + s.peer}
		files[n], _ = issue(t, authority, certificate.RoleEtcd, true, hostOf(t, s.peer))
	}
	run := func(lists [][]etcdserver.Member) {
		var all sync.WaitGroup
		servers := make([]*etcdserver.Server, len(sites))
		for n, s := range sites {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				server, err := etcdserver.Start(ctx, etcdserver.Options{
					DataDir: s.dir, ClientAddress: s.client, PeerAddress: s.peer, PeerTLS: files[n],
					Membership: &etcdserver.Membership{Name: members[n].Name, AdvertiseClient: "http://" + s.client, Members: lists[n]},
				})
				if err != nil {
					t.Error(err)
					return
				}
				servers[n] = server
			})
		}
		all.Wait()
		for _, server := range servers {
			if server != nil {
				all.Go(func() { _ = server.Close() })
			}
		}
		all.Wait()
	}
	run([][]etcdserver.Member{members, members})
	const elsewhere = "https://192.0.2.1:2380"
	run([][]etcdserver.Member{{members[0], {Name: "e1", Peer: elsewhere}}, {{Name: "e0", Peer: elsewhere}, members[1]}})
}

// TestALoneMember: nobody has to come to a server without others but the server itself.
func TestALoneMember(t *testing.T) {
	authority, s := authorityOf(t, false), newSite(t)
	files, own := issue(t, authority, certificate.RoleEtcd, false, hostOf(t, s.peer))
	server, err := etcdserver.Start(t.Context(), etcdserver.Options{DataDir: s.dir, ClientAddress: s.client, PeerAddress: s.peer, PeerTLS: files, NoSync: true})
	must(t, err)
	defer server.Close()
	_, node := issue(t, authority, certificate.RoleNode, false, hostOf(t, s.peer))
	if err := ask(t, s.peer, node); err == nil {
		t.Error("a node is taken for a member")
	}
	must(t, ask(t, s.peer, own))
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	host, _, err := net.SplitHostPort(address)
	must(t, err)
	return host
}
