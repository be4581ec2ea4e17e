package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/parse"
)

func withGraphite(o *Options) { o.GraphiteAddress = "127.0.0.1:0" }

// framed puts the length in front of a pickle.
func framed(pickle string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(pickle)))) + pickle
}

// pickled is a pickle of protocol 2 of one point.
func pickled(path string, seconds byte) string {
	return "\x80\x02](U" + string(rune(len(path))) + path + "K" + string(rune(seconds)) + "K\x07\x86\x86e."
}

// lockedText is a log that tests read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestGraphitePort(t *testing.T) {
	for _, c := range []struct {
		name, in string
		stored   []string
		refused  float64
		log      string
	}{
		{"lines", "# comment\n\nservers.a.load 0.5 1700000000\r\nservers.a.load 1 -1\nnet;dc=x 2 N\nm nan 1\n",
			[]string{"servers.a.load{} 1700000000000 0.5", "servers.a.load{} 1700000123456 1", "net{dc=x} 1700000123456 2"}, 0, ""},
		{"errors", "a 1\nb x 1\nc 1 1\n", []string{"c{} 1000 1"}, 2, "point 1: expected a path, a value and a time (line 'a 1')"},
		{"no end", "a 1 1\nb 1 1", []string{"a{} 1000 1"}, 0, "the last line is dropped"},
		{"pickles", framed(pickled("a.b", 1)) + framed(pickled("c", 2)), []string{"a.b{} 1000 7", "c{} 2000 7"}, 0, ""},
		{"a bad pickle among good ones", framed(pickled("a", 1)) + framed("cos\nsystem\n") + framed(pickled("b", 1)),
			[]string{"a{} 1000 7", "b{} 1000 7"}, 1, "the instruction 0x63"},
		{"a pickle without an end", framed(pickled("a", 1)) + framed(pickled("b", 1))[:9], []string{"a{} 1000 7"}, 0, "the last frame is dropped"},
		{"a frame that is too long", framed(pickled("a", 1)) + "\x00\x10\x00\x01" + pickled("b", 1), []string{"a{} 1000 7"}, 1, "no more than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := &lockedText{}
			r := start(t, func(o *Options) {
				withGraphite(o)
				o.Logger = slog.New(slog.NewTextHandler(log, nil))
			})
			if out := exchange(t, r.Addresses().Graphite, c.in); out != "" {
				t.Errorf("answer: %q", out)
			}
			equalLines(t, "stored", r.stored(), c.stored)
			if got := r.metric(t, "tickmesh_ingest_points_total", "protocol=tcp_graphite", "outcome=refused"); got != c.refused {
				t.Errorf("%v refused, want %v", got, c.refused)
			}
			if c.log == "" && strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), c.log) {
				t.Errorf("log %s\nwant %s", log, c.log)
			}
		})
	}
}

// Streams that are cut anywhere mean what they do as a whole.
func TestGraphiteInPieces(t *testing.T) {
	var lines, pickles strings.Builder
	var want []string
	for i := range 100 {
		fmt.Fprintf(&lines, "m.%d %d %d\n", i, 7, 1+i)
		pickles.WriteString(framed(pickled(fmt.Sprintf("m.%d", i), byte(1+i))))
		want = append(want, fmt.Sprintf("m.%d{} %d 7", i, 1000*(1+i)))
	}
	for name, text := range map[string]string{"lines": lines.String(), "pickles": pickles.String()} {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(o *Options) { withGraphite(o); o.TCP.ChunkBytes = 100 })
			c := dial(t, r.Addresses().Graphite)
			for from := 0; from < len(text); from += 37 {
				send(t, c, text[from:min(from+37, len(text))])
			}
			if out := exchangeOn(t, c, ""); out != "" {
				t.Errorf("answer %q", out)
			}
			equalLines(t, "stored", r.stored(), append([]string(nil), want...))
		})
	}
}

// What Python's pickle has written goes through the port, longer than a chunk.
func TestGraphitePicklesOfPython(t *testing.T) {
	body, err := os.ReadFile("../../api/parse/testdata/pickles/protocol2.bin")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, func(o *Options) { withGraphite(o); o.TCP.ChunkBytes = 1000 })
	if out := exchange(t, r.Addresses().Graphite, string(body)); out != "" {
		t.Errorf("answer %q", out)
	}
	if got := len(r.stored()); got != 1107 {
		t.Errorf("%d samples, want 1107", got)
	}
}

func TestGraphiteTemplates(t *testing.T) {
	names, err := parse.NewGraphiteNames(parse.GraphiteRules{Templates: []string{"servers.* .host.measurement.field"}})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, func(o *Options) { withGraphite(o); o.GraphiteNames = names })
	// Twice: the second time the cache of lines knows the path.
	exchange(t, r.Addresses().Graphite, "servers.a.cpu.load 1 1\nother.a 2 1\nservers.a.cpu.load 3 2\n")
	equalLines(t, "stored", r.stored(), []string{"cpu{_field=load,host=a} 1000 1", "other.a{} 1000 2", "cpu{_field=load,host=a} 2000 3"})
}

// Those who are not let in are told, and the others are not, as clients of Graphite read nothing.
func TestGraphiteSignIn(t *testing.T) {
	authority, _ := users(t)
	for _, c := range []struct {
		name, in, out string
		stored        []string
	}{
		{"nobody", "a 1 1\n", "AUTH_FAIL: …\n", nil},
		{"pickles of nobody", framed(pickled("a", 1)) + "\n", "AUTH_FAIL: …\n", nil},
		{"lines", "auth token t-writer\na 1 1\n", "", []string{"a{} 1000 1"}},
		{"pickles", "auth token t-writer\n" + framed(pickled("a", 1)), "", []string{"a{} 1000 7"}},
		{"a reader", "auth token t-reader\na 1 1\n", "AUTH_FAIL: …\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, func(o *Options) { withGraphite(o); o.Authenticator = authority })
			if out := exchange(t, r.Addresses().Graphite, c.in); !matches(out, c.out) {
				t.Errorf("answer %q, want %q", out, c.out)
			}
			equalLines(t, "stored", r.stored(), c.stored)
		})
	}
}

// Frames that wait for their ends are charged, and there is a bound for all of them together.
func TestGraphiteUnendedPickles(t *testing.T) {
	r := start(t, func(o *Options) { withGraphite(o); o.Limits.WaitingBytesMax = 100_000 })
	for range 4 {
		c := dial(t, r.Addresses().Graphite)
		send(t, c, framed(strings.Repeat("x", 60_000))[:50_000])
	}
	refused := func() float64 {
		return r.metric(t, "tickmesh_ingest_points_total", "protocol=tcp_graphite", "outcome=refused")
	}
	eventually(t, "what does not fit is refused", func() bool { return refused() >= 2 })
	if used := r.streams.waiting.used.Load(); used > 100_000 {
		t.Errorf("%d bytes wait", used)
	}
}

// heldAuthority keeps callers waiting, as a check of a password does.
type heldAuthority struct {
	access.Authenticator
	entered, let chan struct{}
}

func (a *heldAuthority) Authenticate(ctx context.Context, c access.Credentials) (access.Principal, error) {
	a.entered <- struct{}{}
	<-a.let
	return a.Authenticator.Authenticate(ctx, c)
}

// Who has not said yet who it is holds no room for what its pickles would become. What came behind the
// introduction is written all the same when nothing more comes.
func TestGraphiteHoldsLittleForStrangers(t *testing.T) {
	known, _ := users(t)
	authority := &heldAuthority{known, make(chan struct{}), make(chan struct{})}
	r := start(t, func(o *Options) { withGraphite(o); o.Authenticator = authority })
	c := dial(t, r.Addresses().Graphite)
	send(t, c, "auth token t-writer\n"+framed(pickled("a", 1))+framed(pickled("b", 2)))
	<-authority.entered
	if used, most := r.budgets.Writes.Stats().Used, int64(2*r.options.TCP.ChunkBytes); used > most {
		t.Errorf("%d bytes are held for a stranger, want %d at most", used, most)
	}
	close(authority.let)
	eventually(t, "both frames are written", func() bool { return len(r.stored()) == 2 })
}
