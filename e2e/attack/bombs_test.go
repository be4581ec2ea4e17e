package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

// bomb is a small request that asks for much.
type bomb struct {
	name   string
	method string
	target string
	header http.Header
	body   func() string // made when it is thrown: some are large
	times  int           // thrown at once; 0: 8
	// works: it is a question that may be answered, and must end by a limit of queries if not.
	works bool
}

// Bounds of a bomb. Who throws it may be kept waiting, for memory or a place: that is its own
// matter, so it hangs up after a while. What nobody waits for any more has to end soon.
const (
	throwMax = 1500 * time.Millisecond
	idleMax  = 15 * time.Second
	// idleShare is how much more of one core than in calm a server may use that only has the good
	// clients: whatever is left behind and never ends uses a whole one.
	idleShare = 0.5
)

func text(s string) func() string { return func() string { return s } }

func again(prefix, part string, count int, suffix string) func() string {
	return func() string { return prefix + strings.Repeat(part, count) + suffix }
}

func nested(prefix, open, middle, shut string, depth int, suffix string) func() string {
	return func() string {
		return prefix + strings.Repeat(open, depth) + middle + strings.Repeat(shut, depth) + suffix
	}
}

func zipped(content func() []byte) func() string {
	return func() string {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		_, _ = z.Write(content())
		_ = z.Close()
		return b.String()
	}
}

// zippedMiB is gzip of many MiB of one byte, as members of 1 MiB each: to compress all of it would
// take the attacker longer than the attack.
func zippedMiB(content byte, count int) func() string {
	return func() string {
		one := zipped(func() []byte { return bytes.Repeat([]byte{content}, 1<<20) })()
		return strings.Repeat(one, count)
	}
}

func spaces(n int) func() []byte { return func() []byte { return bytes.Repeat([]byte{' '}, n) } }

func snapped(content func() []byte) func() string {
	return func() string { return string(snappy.Encode(nil, content())) }
}

// inOrder goes through a map in the order of its names, so that a seed tells of all that is sent.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

// posted is a form with one parameter.
func posted(name string, value func() string) func() string {
	return func() string { return name + "=" + url.QueryEscape(value()) }
}

var (
	asForm     = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	asJSON     = http.Header{"Content-Type": {"application/json"}}
	asProtobuf = http.Header{"Content-Type": {"application/x-protobuf"}}
	asRemote   = http.Header{"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"}}
	asSecond   = http.Header{
		"Content-Type": {"application/x-protobuf;proto=io.prometheus.write.v2.Request"}, "Content-Encoding": {"snappy"},
		"X-Prometheus-Remote-Write-Version": {"2.0.0"},
	}
)

func asGzip(h http.Header) http.Header {
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Content-Encoding", "gzip")
	return h
}

func bombs() []bomb {
	all := append(compressionBombs(), promqlBombs()...)
	all = append(all, influxqlBombs()...)
	return append(append(all, opentsdbBombs()...), wideBombs()...)
}

func compressionBombs() []bomb {
	const target = "/write?db=evil"
	return []bomb{
		{name: "gzip of 1 GiB in a write", method: "POST", target: target, header: asGzip(nil), body: zippedMiB(' ', 1024), times: 4},
		{name: "gzip of just what is taken", method: "POST", target: target, header: asGzip(nil), body: zippedMiB(' ', 63)},
		{name: "gzip in gzip", method: "POST", target: target, header: asGzip(nil), body: zipped(func() []byte { return []byte(zippedMiB(' ', 256)()) })},
		{name: "gzip in put", method: "POST", target: "/api/put", header: asGzip(asJSON), body: zippedMiB('[', 63)},
		{name: "snappy that claims 4 GiB", method: "POST", target: "/api/v1/write?db=evil", header: asRemote, body: func() string {
			return string(append(binary.AppendUvarint(nil, 1<<32-1), 0xfe, 0, 0))
		}},
		{name: "snappy of just what is taken", method: "POST", target: "/api/v1/write?db=evil", header: asRemote, body: snapped(spaces(63 << 20))},
		{name: "remote read of 1 GiB", method: "POST", target: "/api/v1/read?db=evil", header: asRemote, body: snapped(spaces(256 << 20))},
		{name: "symbols that come again", method: "POST", target: "/api/v1/write?db=evil", header: asSecond, body: symbols(8<<10, 2000, 32), times: 10},
		{name: "one symbol for many series", method: "POST", target: "/api/v1/write?db=evil", header: asSecond, body: symbols(100, 200_000, 2), times: 10},
		{name: "OTLP labels for many buckets", method: "POST", target: pathOTLP, header: asProtobuf, body: otlpBuckets(10, 16_000, 16_000), times: 4},
		{name: "OTLP values in values", method: "POST", target: pathOTLP, header: asProtobuf, body: otlpNested(500_000)},
		{name: "OTLP points of three bytes in JSON", method: "POST", target: pathOTLP, header: asJSON, body: func() string {
			return `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[` + strings.Repeat("{},", 2<<20/3-100) + "{}]}}]}]}]}"
		}, times: 4},
	}
}

const pathOTLP = "/v1/metrics?db=evil"

// otlpBuckets is a histogram of data points that have one long attribute and many buckets, each of which has it as a label.
func otlpBuckets(points, attributeBytes, buckets int) func() string {
	return func() string {
		message := func(fields ...any) []byte { // numbers, each with what is nested
			var b []byte
			for i := 0; i < len(fields); i += 2 {
				b = protowire.AppendTag(b, protowire.Number(fields[i].(int)), protowire.BytesType)
				b = protowire.AppendBytes(b, fields[i+1].([]byte))
			}
			return b
		}
		value := message(1, []byte(strings.Repeat("v", attributeBytes)))
		point := message(9, message(1, []byte("k"), 2, value), 6, make([]byte, 8*buckets), 7, make([]byte, 8*buckets))
		var histogram []byte
		for range points {
			histogram = append(histogram, message(1, point)...)
		}
		histogram = append(histogram, 2<<3, 2) // cumulative
		return string(message(1, message(2, message(2, message(1, []byte("extra"), 9, histogram)))))
	}
}

// otlpNested is a data point with an attribute whose value is a list in a list, over and over.
func otlpNested(depth int) func() string {
	return func() string {
		// From the innermost outwards: each level is two fields around the one before.
		lengths := []int{0}
		for range 2 * depth {
			n := lengths[len(lengths)-1]
			lengths = append(lengths, 1+protowire.SizeVarint(uint64(n))+n)
		}
		var value []byte
		for i := 2 * depth; i > 0; i-- {
			number := protowire.Number(5) // AnyValue.array_value, ArrayValue.values
			if i%2 != 0 {
				number = 1
			}
			value = protowire.AppendVarint(protowire.AppendTag(value, number, protowire.BytesType), uint64(lengths[i-1]))
		}
		wrap := func(number protowire.Number, b []byte) []byte {
			return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), b)
		}
		point := wrap(7, append(wrap(1, []byte("k")), wrap(2, value)...))
		metric := append(wrap(1, []byte("extra")), wrap(5, wrap(1, point))...)
		return string(wrap(1, wrap(2, wrap(2, metric))))
	}
}

// symbols is a remote write 2.0 whose series refer to the same long symbols over and over.
func symbols(bytesEach, series, labels int) func() string {
	return snapped(func() []byte {
		field := func(b []byte, number int, content []byte) []byte {
			b = binary.AppendUvarint(b, uint64(number<<3|2))
			b = binary.AppendUvarint(b, uint64(len(content)))
			return append(b, content...)
		}
		message := field(nil, 4, nil)
		message = field(message, 4, []byte("__name__"))
		message = field(message, 4, bytes.Repeat([]byte("v"), bytesEach))
		for label := range labels {
			message = field(message, 4, fmt.Appendf(nil, "l%04d", label))
		}
		var refs []byte
		refs = append(refs, 1, 2)
		for label := range labels {
			refs = binary.AppendUvarint(refs, uint64(3+label))
			refs = append(refs, 2)
		}
		sample := append([]byte{0x09}, binary.LittleEndian.AppendUint64(nil, 0x3ff0000000000000)...)
		sample = binary.AppendUvarint(append(sample, 0x10), 1_700_000_000_000)
		one := field(field(nil, 1, refs), 2, sample)
		for range series {
			message = field(message, 5, one)
		}
		return message
	})
}

func promqlBombs() []bomb {
	var all []bomb
	for _, path := range []string{"parse_query", "format_query", "query"} {
		for name, body := range inOrder(map[string]func() string{
			"functions in functions": nested("", "ln(", "x", ")", 400_000, ""), "functions of abs": nested("", "abs(", "x", ")", 800_000, ""),
			"parentheses": nested("", "(", "x", ")", 100_000, ""), "few parentheses": nested("", "(", "1", ")", 2000, ""),
			"flat sum": again("", "x+", 1000, "x"), "long flat sum": again("", "x+", 200_000, "x"), "signs": again("", "-", 500_000, "1"),
			"regular expression": text(`x{a=~"` + strings.Repeat("(a{1000})", 3300) + `"}`), "repeats of repeats": text(`x{a=~"((((a{30}){30}){30}){30})"}`),
			"many matchers": again("x{", `a!="b",`, 100_000, "}"), "zero byte": text("\x00N"), "not UTF-8": again("", "\xff", 100_000, ""),
			"subqueries": nested("", "max_over_time(", "x", "[1h:1s])", 300, ""),
		}) {
			all = append(all, bomb{name: "promql " + path + " " + name, method: "POST", target: "/api/v1/" + path + "?db=evil", header: asForm, body: posted("query", body)})
		}
	}
	now := time.Now().Unix()
	return append(all,
		bomb{name: "promql steps", method: "GET", target: "/api/v1/query_range?db=evil&query=wide&start=0&end=4000000000&step=0.001", body: text("")},
		bomb{name: "promql subquery of all time", method: "POST", target: "/api/v1/query?db=evil", header: asForm, body: posted("query", text("max_over_time(wide[100y:1ms])")), works: true},
		bomb{name: "promql matchers in series", method: "POST", target: "/api/v1/series?db=evil", header: asForm, body: again("", "match[]=x&", 200_000, "match[]=x")},
		bomb{name: "promql product", method: "GET", target: fmt.Sprintf("/api/v1/query?db=evil&time=%d&query=", now) + url.QueryEscape("wide * on() group_left() wide"), body: text(""), works: true},
		bomb{name: "promql label_replace", method: "POST", target: "/api/v1/query?db=evil", header: asForm,
			body: posted("query", text(`label_replace(wide, "x", "`+strings.Repeat("$1", 5000)+`", "a", "(`+strings.Repeat("(.*)", 500)+`)")`)), works: true},
	)
}

func influxqlBombs() []bomb {
	var all []bomb
	for name, body := range inOrder(map[string]func() string{
		"parentheses": nested("select ", "(", "value", ")", 200_000, " from wide"), "signs": again("select ", "-", 300_000, "value from wide"),
		"flat sum": again("select ", "value+", 100_000, "value from wide"), "conditions": again("select value from wide where ", "a='b' and ", 100_000, "a='b'"),
		"nested conditions": nested("select value from wide where ", "(", "a='b'", ")", 200_000, ""),
		"subqueries":        nested("", "select value from (", "select value from wide", ")", 10_000, ""),
		"statements":        again("", "show databases;", 100_000, ""), "regular expression": text("select value from wide where a =~ /" + strings.Repeat("(a{1000})", 3300) + "/"),
		"repeats of repeats": text("show tag values from /((((a{30}){30}){30}){30})/ with key = a"), "fields": again("select ", "value,", 100_000, "value from wide"),
		"windows": text("select count(value) from wide where time > 0 group by time(1ns)"), "quotes": again("select \"", "\\\"", 500_000, "\" from wide"),
		"groups": text("select count(value) from wide where time > now() - 1h group by *, time(1ms)"),
	}) {
		all = append(all, bomb{name: "influxql " + name, method: "POST", target: "/query?db=evil", header: asForm, body: posted("q", body), works: name == "groups"})
	}
	return all
}

func opentsdbBombs() []bomb {
	body := func(filter string) string {
		return `{"start":"1h-ago","queries":[{"aggregator":"sum","metric":"wide","filters":[{"type":"regexp","tagk":"a","groupBy":true,"filter":"` + filter + `"}]}]}`
	}
	return []bomb{
		{name: "opentsdb regexp", method: "POST", target: "/api/query?db=evil", header: asJSON, body: text(body(strings.Repeat("(a{1000})", 3300)))},
		{name: "opentsdb repeats", method: "POST", target: "/api/query?db=evil", header: asJSON, body: text(body("((((a{30}){30}){30}){30})"))},
		{name: "opentsdb many queries", method: "GET", target: "/api/query?db=evil&start=1h-ago" + strings.Repeat("&m=sum:wide", 250), body: text(""), works: true},
		{name: "opentsdb more queries", method: "POST", target: "/api/query?db=evil", header: asJSON,
			body: again(`{"start":"1h-ago","queries":[`, `{"aggregator":"sum","metric":"wide"},`, 50_000, `{"aggregator":"sum","metric":"wide"}]}`)},
		{name: "opentsdb small windows", method: "GET", target: "/api/query?db=evil&start=1970/01/01&m=sum:1ms-sum-zero:wide", body: text(""), works: true},
		{name: "opentsdb JSON depth", method: "POST", target: "/api/query?db=evil", header: asJSON, body: again("", `{"a":`, 500_000, "")},
		{name: "opentsdb put depth", method: "POST", target: "/api/put", header: asJSON, body: again("", "[", 4<<20, "")},
		{name: "opentsdb put width", method: "POST", target: "/api/put", header: asJSON, body: again("[", "{},", 4<<20, "{}]"), times: 4},
		{name: "opentsdb put tags", method: "POST", target: "/api/put", header: asJSON, body: again(`[{"metric":"a","timestamp":1,"value":1,"tags":{`, `"a":"b",`, 1<<20, `"a":"b"}}]`), times: 4},
		{name: "page names", method: "GET", target: "/ui/api/names?db=evil&metric=" + strings.Repeat("%2A", 1000), body: text("")},
	}
}

// wideBombs ask for all that there is, many times at once. They may be answered.
func wideBombs() []bomb {
	var all []bomb
	for name, target := range inOrder(map[string]string{
		"promql": "/api/v1/query?db=evil&query=" + url.QueryEscape(`{__name__=~".+"}`), "series": "/api/v1/series?db=evil&match[]=" + url.QueryEscape(`{__name__=~".+"}`),
		"influxql": "/query?db=evil&q=" + url.QueryEscape("select * from /.*/ group by *"), "opentsdb": "/api/query?db=evil&start=1h-ago&m=none:wide",
		"lookup": "/api/search/lookup?db=evil&m=wide&limit=1000000", "cardinality": "/api/v1/status/tsdb?db=evil&limit=10000",
	}) {
		all = append(all, bomb{name: "wide " + name, method: "GET", target: target, body: text(""), times: 16, works: true})
	}
	// Each sees all samples of a series at once, where they are read.
	long := "/api/v1/query?db=evil&query=" + url.QueryEscape("max_over_time(long[30d])")
	return append(all, bomb{name: "long range", method: "GET", target: long, body: text(""), times: 60, works: true})
}

// throw sends a bomb several times at once and judges the answers. What it gives back looks at
// what the bomb has left behind.
func (g *ground) throw(t *testing.T, b bomb) (after func(*testing.T)) {
	t.Helper()
	content := b.body()
	times := b.times
	if times == 0 {
		times = 8
	}
	ctx, cancel := context.WithTimeout(t.Context(), throwMax)
	defer cancel()
	begin := time.Now()
	answers := make([]answer, times)
	var all sync.WaitGroup
	for n := range times {
		all.Go(func() { answers[n] = g.call(ctx, attacker(n), userOther, b.method, b.target, b.header, content) })
	}
	all.Wait()
	took := time.Since(begin)
	for _, a := range answers {
		g.spy.seeAnswer("bomb "+b.name, "", a) // a server that does not read the rest of a body may cut the connection
		if a.status == http.StatusInternalServerError {
			t.Errorf("%s: %d %.300s", b.name, a.status, a.body)
			break
		}
	}
	return func(t *testing.T) {
		if took > throwMax/3 {
			t.Logf("%s: %d bytes, %d at once, %v, status %d %v %.100s", b.name, len(content), times, took.Round(time.Millisecond), answers[0].status, answers[0].err, answers[0].body)
			g.awaitIdle(t)
		}
		g.mustBeNear(t, b, answers)
	}
}

// mustBeNear fails where a bomb did not get to what it is for: requests that all wait for memory
// until their client hangs up show nothing of a parser. And whoever has thrown one is served
// again soon.
func (g *ground) mustBeNear(t *testing.T, b bomb, answers []answer) {
	t.Helper()
	hungUp := func(a answer) bool { return errors.Is(a.err, context.DeadlineExceeded) }
	if !b.works && !slices.ContainsFunc(answers, func(a answer) bool { return !hungUp(a) }) {
		ctx, cancel := context.WithTimeout(t.Context(), waitMax) // alone, and with all the time of a busy machine
		defer cancel()
		if a := g.call(ctx, attacker(0), userOther, b.method, b.target, b.header, b.body()); hungUp(a) {
			t.Errorf("%s: has no answer", b.name)
		}
	}
	begin := time.Now()
	g.eventually(t, func() error {
		return judge(g.call(t.Context(), attacker(0), userOther, http.MethodGet, "/api/v1/query?db=evil&query=1", nil, ""), http.StatusOK)
	})
	if took := time.Since(begin); took > servedMax {
		t.Errorf("%s: its user is served again only after %v", b.name, took)
	}
}

// share returns how many cores the server uses in a time to come.
func (g *ground) share(t *testing.T, window time.Duration) float64 {
	t.Helper()
	before, err := g.server.Usage()
	start := time.Now()
	pause(t, window)
	after, errAfter := g.server.Usage()
	if err := errors.Join(err, errAfter); err != nil {
		if !g.revived(t) {
			t.Error(err)
		}
		t.FailNow()
	}
	return float64(after.CPU-before.CPU) / float64(time.Since(start))
}

// awaitIdle waits until the server does not work at what was left behind.
func (g *ground) awaitIdle(t *testing.T) {
	t.Helper()
	for begin := time.Now(); ; {
		share := g.share(t, 300*time.Millisecond)
		g.mustLive(t) // one that has ended is idle
		if share < g.calmShare+idleShare {
			t.Logf("idle after %v", time.Since(begin).Round(time.Millisecond))
			return
		}
		if time.Since(begin) > idleMax {
			t.Errorf("%v after the last request has gone, the server still uses %.1f cores, in calm %.1f\n%s", idleMax, share, g.calmShare, g.profile(t))
			return
		}
	}
}

// profile returns what the server computes now, for whoever reads of a failure.
func (g *ground) profile(t *testing.T) string {
	t.Helper()
	a := g.call(t.Context(), goodAddress, userAdmin, http.MethodGet, "/debug/pprof/profile?seconds=3", nil, "")
	if err := judge(a, http.StatusOK); err != nil {
		return fmt.Sprintf("no profile: %v", err)
	}
	path := filepath.Join(t.TempDir(), "cpu")
	if err := os.WriteFile(path, a.body, 0o600); err != nil {
		return err.Error()
	}
	top, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", "-cum", "-nodecount", "60", path).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v\n%s", err, top)
	}
	return string(top)
}
