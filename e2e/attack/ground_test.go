package attack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

const (
	memoryMax = 512 << 20
	// waitMax bounds each step of a test; no result depends on it.
	waitMax = time.Minute
	// shutdownTimeout is what the servers are told, and shutdownSlack what a busy machine
	// may add.
	shutdownTimeout = 3 * time.Second
	shutdownSlack   = 10 * time.Second
)

// ground is a server under attack with all that is known of it.
type ground struct {
	dir     string
	options harness.StandaloneOptions
	at      harness.StandaloneAddresses
	grpc    string
	udp     string
	metrics string
	users   bool
	group   *harness.MemoryGroup // nil: memory is sampled instead
	server  *harness.Standalone
	// processes are those under attack, in the order in which they end.
	processes []*member
	spy       *spy
	issuer    *issuer // nil without users
	// replayed is a token that was good.
	replayed string
	marks    marks
	secret   string // part of every name, value and query of the victim
	fell     bool   // it had to be started again
	starts   int    // of the server
	peak     int64  // RSS in bytes, of servers that have ended
	// calmShare is how many cores the server uses while only the good clients are there.
	calmShare float64
}

// Users of the file, by what they may do. Their tokens are token(name).
const (
	userGood   = "good"   // writes and reads its own database
	userOther  = "mallet" // may do everything in its own database, nothing elsewhere
	userReader = "reader" // reads the victim's database
	userWriter = "writer" // writes to it
	userAdmin  = "admin"  // may do everything
	userGone   = "gone"   // is taken back during the test

	passwordGood = "correct horse battery"
)

func token(user string) string { return "token-of-" + user + "-0123456789abcdef" }

// vault is the database of the victim, and victim the user who owns it.
func (g *ground) vault() string  { return "vault" + g.secret }
func (g *ground) victim() string { return "owner" + g.secret }

// prepareGround makes a ground without a server.
func prepareGround(t *testing.T, seed uint64, users bool) *ground {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	g := &ground{dir: t.TempDir(), users: users, secret: fmt.Sprintf("%016x", rng.Uint64())}
	g.marks = marks{good: fmt.Sprintf("g%016x", rng.Uint64()), evil: fmt.Sprintf("e%016x", rng.Uint64())}
	if g.spy = newSpy(g.secret, g.marks.good); !users {
		g.spy = newSpy() // nothing is secret
	}
	if users {
		g.issuer = newIssuer(t)
	}
	var err error
	if g.at, err = harness.NewStandaloneAddresses(); err != nil {
		t.Fatal(err)
	}
	free, err := harness.FreeAddresses(3)
	if err != nil {
		t.Fatal(err)
	}
	g.grpc, g.udp, g.metrics = free[0], free[1], free[2]
	return g
}

// marks are in the names that the good clients and the attacker have stored: nobody else may see
// them.
type marks struct{ good, evil string }

// newGround starts a server. It and all that it has written go with the test.
func newGround(t *testing.T, seed uint64, users bool, extra ...string) *ground {
	t.Helper()
	g := prepareGround(t, seed, users)
	flags := []string{
		"--grpc-addr", g.grpc, "--udp-addr", g.udp, "--metrics-addr", g.metrics, "--pprof", "--admin", "--shards", "16",
		"--shutdown-timeout", shutdownTimeout.String(), "--wal-sync", "off", "--log-level", "warn",
	}
	if users {
		flags = append(flags, "--rules-file", g.writeRules(t), "--auth-file", g.writeUsers(t, userGone), "--udp-user", userOther, "--udp-database", "evil")
	}
	g.group = memoryGroup(t, memoryMax)
	g.options = harness.StandaloneOptions{
		Binary: program(t), DataDir: filepath.Join(g.dir, "data"), Extra: append(flags, extra...), Group: g.group,
	}
	if g.group == nil {
		g.options.Env = []string{fmt.Sprintf("GOMEMLIMIT=%d", memoryMax/2)}
	}
	g.processes = []*member{{name: "the server", group: g.group, start: g.start}}
	g.start(t)
	checkListeners(t, g.server.Process)
	t.Cleanup(func() {
		g.server.Kill()
		if g.group != nil {
			if err := g.group.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	g.fill(t)
	return g
}

// memoryGroup makes the control group, or says by the list of skips why there is none.
func memoryGroup(t *testing.T, bytesMax int64) *harness.MemoryGroup {
	t.Helper()
	group, err := harness.NewMemoryGroup(bytesMax)
	if errors.Is(err, harness.ErrNoMemoryGroup) || errors.Is(err, os.ErrPermission) {
		without(t, "control group", err)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return group
}

func (g *ground) start(t *testing.T) {
	t.Helper()
	g.starts++
	g.options.LogPath = filepath.Join(g.dir, fmt.Sprintf("log-%d", g.starts)) // each tells of its own end
	var server *harness.Standalone
	var err error
	launch(func() { server, err = harness.StartStandalone(t.Context(), g.options, g.at) })
	if err != nil {
		t.Fatal(err)
	}
	g.server, g.processes[0].Process = server, server.Process
}

// writeUsers writes the file of users; extra are users without any right.
func (g *ground) writeUsers(t *testing.T, extra ...string) (path string) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(passwordGood), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	text := "users:\n"
	add := func(name, more, rights string) {
		digest := sha256.Sum256([]byte(token(name)))
		text += fmt.Sprintf("- name: %s\n  tokens: [%s]\n%s  rights: {%s}\n", name, hex.EncodeToString(digest[:]), more, rights)
	}
	add(userGood, fmt.Sprintf("  password-hash: %q\n", hash), "good: admin")
	add(userOther, "", "evil: admin")
	add(userReader, "", g.vault()+": read")
	add(userWriter, "", g.vault()+": write")
	add(userAdmin, "", "'*': admin")
	add(g.victim(), "", g.vault()+": admin")
	for _, name := range extra {
		add(name, "", "good: read")
	}
	text += g.issuer.rules()
	path = filepath.Join(g.dir, "users.yaml")
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeRules writes rules of the victim's database, whose names nobody else may see, and returns what --rules-file is told.
func (g *ground) writeRules(t *testing.T) string {
	t.Helper()
	path := filepath.Join(g.dir, "rules.yaml")
	text := fmt.Sprintf("groups:\n- name: group%[1]s\n  interval: 1s\n  rules:\n  - {record: rule%[1]s, expr: count(canary)}\n  - {alert: alert%[1]s, expr: canary > 10}\n", g.secret)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return g.vault() + "=" + path
}

// canaries is what the victim has stored, as CSV of InfluxQL tells it.
const canaries = 50

// fill writes the victim's data, and much of the attacker's own, for queries of everything.
func (g *ground) fill(t *testing.T) {
	t.Helper()
	var lines strings.Builder
	now := time.Now().UnixNano()
	for i := range canaries {
		fmt.Fprintf(&lines, "canary,host=host%s,n=%d value=%d %d\nmetric%s,n=%d value=1 %d\n", g.secret, i, i, now-int64(i)*1e9, g.secret, i, now)
	}
	g.mustWrite(t, g.vault(), g.victim(), lines.String())
	g.mustWrite(t, "evil", userOther, fmt.Sprintf("own%s,tag%s=value%s value=1\n", g.marks.evil, g.marks.evil, g.marks.evil))
	for part := range 10 {
		lines.Reset()
		for i := range 2000 {
			fmt.Fprintf(&lines, "wide,a=%d,b=%d value=%d %d\n", part, i, i, now)
		}
		g.mustWrite(t, "evil", userOther, lines.String())
	}
	for part := range 20 { // a series for which a query of a long range holds 8 MiB
		lines.Reset()
		for i := range 25_000 {
			fmt.Fprintf(&lines, "long value=%d %d\n", i, now-int64(part*25_000+i)*1e9)
		}
		g.mustWrite(t, "evil", userOther, lines.String())
	}
}

func (g *ground) mustWrite(t *testing.T, database, user, lines string) {
	t.Helper()
	g.eventually(t, func() error {
		a := g.call(t.Context(), attacker(0), user, http.MethodPost, "/write?db="+url.QueryEscape(database), nil, lines)
		if a.err == nil && a.status != http.StatusNoContent {
			a.err = fmt.Errorf("%d: %.200s", a.status, a.body)
		}
		return a.err
	})
}

// eventually tries until there is no error. It fails the test at once where the server has ended.
func (g *ground) eventually(t *testing.T, try func() error) {
	t.Helper()
	switch err := g.until(t.Context(), try); {
	case errors.Is(err, errEnded):
		g.mustLive(t)
	case err != nil:
		t.Fatalf("after %v still: %v", waitMax, err)
	}
}

// until is eventually with an error: errEnded, or that of the last try.
func (g *ground) until(ctx context.Context, try func() error) error {
	deadline := time.Now().Add(waitMax)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if end := g.ended(); end != nil {
			return end
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// checkVault compares what the victim has stored with what it wrote. Where they differ, it
// fails the test and writes them anew, for what comes after.
func (g *ground) checkVault(t *testing.T) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(servedMax); time.Now().Before(deadline); pause(t, 100*time.Millisecond) {
		if err = g.compareVault(t.Context()); err == nil {
			return
		}
		if !errors.Is(err, errAgain) && !g.revived(t) {
			break
		}
	}
	t.Error(err)
	g.call(t.Context(), attacker(0), userAdmin, http.MethodPost, "/query?q="+url.QueryEscape("DROP DATABASE "+g.vault()), nil, "")
	g.fill(t)
}

func (g *ground) compareVault(ctx context.Context) error {
	query := url.Values{"db": {g.vault()}, "q": {"select count(value), sum(value) from canary"}, "epoch": {"ms"}}
	a := g.call(ctx, attacker(0), g.victim(), http.MethodGet, "/query?"+query.Encode(), http.Header{"Accept": {"application/csv"}}, "")
	if err := judge(a, http.StatusOK); err != nil {
		return err
	}
	if want := fmt.Sprintf(",%d,%d\n", canaries, canaries*(canaries-1)/2); !strings.HasSuffix(string(a.body), want) {
		return fmt.Errorf("the victim's data are not what was written: %q, want %q at its end", a.body, want)
	}
	return nil
}

// answer is what a request has got.
type answer struct {
	status int
	body   []byte
	header http.Header
	err    error
}

// attacker is an address of the loopback: the good clients have another.
func attacker(n int) string { return fmt.Sprintf("127.0.0.%d", 100+n%100) }

const goodAddress = "127.0.0.2"

// clientFrom makes a client of one address, which keeps no connections if it is not told so.
func clientFrom(address string, keep bool) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: !keep, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bodyMax is how much of an answer is read.
const bodyMax = 64 << 20

// call sends one request; user "" shows nobody. Headers win over what follows from the user;
// the header Host is the host.
func (g *ground) call(ctx context.Context, from, user, method, target string, header http.Header, body string) answer {
	client := clientFrom(from, false)
	return g.callBy(ctx, client, user, method, "http://"+g.at.HTTP+target, header, body)
}

func (g *ground) callBy(ctx context.Context, client *http.Client, user, method, target string, header http.Header, body string) (a answer) {
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if g.users && user != "" {
		request.Header.Set("Authorization", "Bearer "+token(user))
	}
	for name, values := range header {
		request.Header[name] = values
	}
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	a = answer{status: response.StatusCode, header: response.Header}
	a.body, a.err = io.ReadAll(io.LimitReader(response.Body, bodyMax))
	return a
}
