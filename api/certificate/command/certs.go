package command

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/durable"
	"github.com/tickmesh/tickmesh/api/settings"
)

// certsSettings are the flags of `tickmesh certs`.
type certsSettings struct {
	dir, cluster string
	validity     settings.Duration
	renew        bool
}

const (
	certsValidity = 365 * 24 * time.Hour
	caValidity    = 10 * certsValidity
)

// New returns `tickmesh certs`.
func New() *cobra.Command {
	s := &certsSettings{validity: settings.Duration(certsValidity)}
	cmd := &cobra.Command{
		Use:   "certs [flags] ROLE[/NAME][=HOST,HOST...]...",
		Short: "Make a CA, and certificates for the processes of a cluster",
		Long: `Makes certificates for the connections inside a cluster, in a folder that only you can read: a
CA if there is none yet, and a certificate for each ROLE/NAME that has none yet. What is
there stays as it is. ROLE is node, router, etcd, operator (for tickmesh rescue-map) or client (of
the public ports). HOSTs are the names and IP addresses at which the others reach the process;
without any it is NAME. Each process needs its own files and ca.crt; ca.key stays where you make
certificates.`,
		Example: `  tickmesh certs node/n1=10.0.0.1 node/n2=10.0.0.2 router/r1=10.0.0.4,r1.lan etcd/e1=10.0.0.5
  tickmesh certs --renew    # all of which less than a third of the time is left`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.Validate(args); err != nil {
				return settings.WithHelp(cmd, err)
			}
			return s.run(args, time.Now(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.dir, "dir", "certs", "`folder` of the certificates and keys; made if missing")
	f.StringVar(&s.cluster, "cluster", settings.ClusterNameDefault, "`name` of the cluster, as nodes and routers have it")
	f.Var(&s.validity, "validity", "how long a certificate is valid; the CA is for ten years")
	f.BoolVar(&s.renew, "renew", false, "make certificates anew of which less than a third of the time is left, or whose hosts are named and differ")
	cmd.AddCommand(newRequest(), newAwait())
	return settings.WrapUsage(cmd)
}

func (s *certsSettings) Validate(args []string) error {
	var v settings.Validation
	if !settings.ValidName(s.cluster) {
		v.Refuse("cluster", s.cluster, "expected up to 63 small letters, digits and inner hyphens")
	}
	if validity := time.Duration(s.validity); validity < time.Hour || validity > caValidity {
		v.Refuse("validity", s.validity.String(), "expected 1h to 10y")
	}
	if len(args) == 0 && !s.renew {
		return errors.New("expected at least one ROLE/NAME, such as node/n1=10.0.0.1, or --renew")
	}
	return v.Err()
}

// clientNameBytesMax is the longest common name of X.509.
const clientNameBytesMax = 64

// identityOf reads ROLE[/NAME][=HOST,HOST...]; named reports whether it has hosts.
func (s *certsSettings) identityOf(text string) (i certificate.Identity, named bool, err error) {
	holder, hosts, named := strings.Cut(text, "=")
	role, id, _ := strings.Cut(holder, "/")
	i.Name = certificate.Name{Cluster: s.cluster, Role: certificate.Role(role), ID: id}
	if err := i.Name.Validate(); err != nil || i.Name.Role == certificate.RoleCA || id == certificate.AnyID {
		return i, false, fmt.Errorf("%q: expected ROLE/NAME[=HOST,HOST...] with a ROLE of node, router, etcd, operator or client, such as node/n1=10.0.0.1", text)
	}
	i.CommonName = fileOf(i.Name)
	if i.Name.Role == certificate.RoleClient && id != "" {
		// What --auth-file goes by: were it cut short, two users could be one.
		if i.CommonName = id; len(id) > clientNameBytesMax {
			return i, false, fmt.Errorf("%q: the name of a client has at most %d bytes", text, clientNameBytesMax)
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host = strings.TrimSpace(host); host != "" {
			i.Hosts = append(i.Hosts, host)
		}
	}
	if len(i.Hosts) == 0 && id != "" {
		i.Hosts = []string{id}
	}
	switch i.Name.Role {
	case certificate.RoleNode, certificate.RoleRouter, certificate.RoleEtcd: // others on the same machine reach them, too
		i.Hosts = append(i.Hosts, "localhost", "127.0.0.1", "::1")
	case certificate.RoleOperator, certificate.RoleClient, certificate.RoleCA:
	}
	return i, named && hosts != "", nil
}

// fileOf returns the name of a holder's files, without their suffixes.
func fileOf(name certificate.Name) string {
	return strings.TrimSuffix(string(name.Role)+"-"+name.ID, "-")
}

// certsRow is a line of the command's output.
type certsRow struct {
	file        string
	certificate certificate.Pair
	done        string
}

func (s *certsSettings) run(args []string, now time.Time, out io.Writer) error {
	folder, err := openCertsFolder(s.dir)
	if err != nil {
		return err
	}
	ca, made, err := s.ca(folder, now)
	if err != nil {
		return err
	}
	rows := []certsRow{{folder.path(caFile + crtSuffix), *ca, made}}
	if len(args) == 0 {
		if args, err = folder.holders(); err != nil {
			return err
		}
	}
	for _, text := range args {
		identity, named, err := s.identityOf(text)
		if err != nil {
			return err
		}
		row, err := s.certify(folder, ca, identity, named, now)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return s.show(rows, out)
}

// ca returns the one of the folder, or makes it.
func (s *certsSettings) ca(folder *certsFolder, now time.Time) (*certificate.Pair, string, error) {
	ca, err := folder.read(caFile)
	if err != nil || ca == nil {
		if err == nil {
			name := s.cluster + " authority of " + now.UTC().Format(time.RFC3339)
			if ca, err = certificate.NewCA(s.cluster, name, caValidity, now); err == nil {
				err = folder.write(caFile, ca)
			}
		}
		return ca, "made", err
	}
	name, err := certificate.NameOf(ca.Certificate)
	if err == nil && name != (certificate.Name{Cluster: s.cluster, Role: certificate.RoleCA}) {
		err = fmt.Errorf("it is of %q, not the CA of cluster %q; choose another --dir or --cluster", name, s.cluster)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", folder.path(caFile+crtSuffix), err)
	}
	return ca, "kept", nil
}

// certify makes the certificate of an identity if it is not there, or is to be renewed.
func (s *certsSettings) certify(folder *certsFolder, ca *certificate.Pair, identity certificate.Identity, named bool, now time.Time) (certsRow, error) {
	file := fileOf(identity.Name)
	row := certsRow{file: folder.path(file + crtSuffix), done: "made"}
	present, err := folder.read(file)
	if err != nil {
		return row, err
	}
	if present != nil {
		if !named {
			identity.Hosts = certificate.HostsOf(present.Certificate)
		}
		if present.Certificate.CheckSignatureFrom(ca.Certificate) != nil {
			return row, fmt.Errorf("%s is of another CA than %s; delete it to have one made", row.file, folder.path(caFile+crtSuffix))
		}
		fits := identity.Fits(present.Certificate)
		if !s.renew && !fits {
			return row, fmt.Errorf("%s is of %s for other hosts: %s; --renew makes it anew", row.file, nameOrNone(present.Certificate), strings.Join(certificate.HostsOf(present.Certificate), ","))
		}
		if !s.renew || fits && certificate.Fresh(present.Certificate, now) {
			row.certificate, row.done = *present, "kept"
			return row, nil
		}
		row.done = "renewed"
	}
	pair, err := ca.Issue(identity, time.Duration(s.validity), now)
	if errors.Is(err, certificate.ErrNoKey) {
		return row, fmt.Errorf("%s: %w: put it back to make certificates", folder.path(caFile+keySuffix), err)
	}
	if err != nil {
		return row, err
	}
	row.certificate = *pair
	return row, folder.write(file, pair)
}

// show returns what is there, and what each process is started with.
func (s *certsSettings) show(rows []certsRow, out io.Writer) error {
	table := make([][]string, 0, len(rows))
	for _, r := range rows {
		c := r.certificate.Certificate
		table = append(table, []string{r.file, nameOrNone(c), display.OrDash(strings.Join(certificate.HostsOf(c), ",")), c.NotAfter.UTC().Format(time.DateOnly), r.done})
	}
	if err := display.Table(out, "FILE NAME HOSTS ENDS STATE", table); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, r := range rows[1:] {
		name, err := certificate.NameOf(r.certificate.Certificate)
		if err != nil {
			return err
		}
		base := strings.TrimSuffix(r.file, crtSuffix)
		fmt.Fprintf(out, "%s:\n", strings.TrimSuffix(string(name.Role)+" "+name.ID, " "))
		for _, prefix := range flagsOf(name.Role) {
			fmt.Fprintf(out, "  --%s-cert %s.crt --%s-key %s.key --%s-ca %s\n", prefix, base, prefix, base, prefix, filepath.Join(s.dir, caFile+crtSuffix))
		}
	}
	return nil
}

// flagsOf returns the beginnings of the flags that a role takes its files by.
func flagsOf(role certificate.Role) []string {
	switch role {
	case certificate.RoleEtcd:
		return []string{"client-tls", "peer-tls"}
	case certificate.RoleClient:
		return []string{"tls"}
	case certificate.RoleNode, certificate.RoleRouter, certificate.RoleOperator, certificate.RoleCA:
	}
	return []string{"rpc-tls", "etcd-tls"}
}

// The files of a folder of certificates.
const (
	caFile    = "ca"
	crtSuffix = ".crt"
	keySuffix = ".key"
)

// certsFolder is a folder that only this user can look into.
type certsFolder struct{ dir string }

func openCertsFolder(dir string) (*certsFolder, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &certsFolder{dir}, durable.MakeDir(dir)
	case err != nil:
		return nil, fmt.Errorf("--dir: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("--dir %s: it is no folder", dir)
	case info.Mode().Perm()&^durable.DirMode != 0:
		return nil, fmt.Errorf("--dir %s: others may look into it (mode %04o), and it has keys: choose another folder, or chmod 700 it", dir, info.Mode().Perm())
	}
	return &certsFolder{dir}, nil
}

func (f *certsFolder) path(file string) string { return filepath.Join(f.dir, file) }

// read returns a certificate, and its key if that is there; nil: there is no certificate.
func (f *certsFolder) read(name string) (*certificate.Pair, error) {
	text, err := os.ReadFile(f.path(name + crtSuffix))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(f.path(name + keySuffix))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	pair, err := certificate.DecodePair(text, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path(name+crtSuffix), err)
	}
	return pair, nil
}

// write puts the key first: a certificate that is there has its key.
func (f *certsFolder) write(name string, pair *certificate.Pair) error {
	key, err := certificate.EncodeKey(pair.Key)
	if err != nil {
		return err
	}
	if err := durable.Replace(f.path(name+keySuffix), key); err != nil {
		return err
	}
	return durable.Replace(f.path(name+crtSuffix), certificate.EncodeCertificates(pair.Certificate))
}

// holders lists the certificates of the folder as arguments of the command.
func (f *certsFolder) holders() (all []string, err error) {
	files, err := filepath.Glob(f.path("*" + crtSuffix))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), crtSuffix)
		if base == caFile {
			continue
		}
		pair, err := f.read(base)
		if err != nil {
			return nil, err
		}
		name, err := certificate.NameOf(pair.Certificate)
		if err != nil || name == (certificate.Name{}) {
			return nil, fmt.Errorf("%s names no process of a cluster; it does not belong here", file)
		}
		all = append(all, strings.TrimSuffix(string(name.Role)+"/"+name.ID, "/"))
	}
	return all, nil
}

// nameOrNone returns a name as people read it.
func nameOrNone(c *x509.Certificate) string {
	name, err := certificate.NameOf(c)
	if err != nil || name == (certificate.Name{}) {
		return "nobody"
	}
	return name.String()
}
