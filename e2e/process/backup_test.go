package process

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
)

// backupTarget is a target, and the flags and the environment that lead there.
type backupTarget struct {
	name    string
	server  []string // flags of the server that is backed up
	flags   []string
	environ []string
	store   archive.Store
}

// backupReport is what commands say of a backup, to --report and in lists.
type backupReport struct {
	Name         string `json:"name"`
	Cluster      string `json:"cluster"`
	StartedMs    int64  `json:"started_ms"`
	FinishedMs   int64  `json:"finished_ms"`
	Samples      int64  `json:"samples"`
	Series       int64  `json:"series"`
	Bytes        int64  `json:"bytes"`
	WrittenBytes int64  `json:"written_bytes"`
	Complete     bool   `json:"complete"`
}

// backupTargets returns an empty folder, and a bucket of an S3 server in memory.
func backupTargets(t *testing.T) map[string]backupTarget {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), "backups")
	bucket, err := archive.Open("s3://backups/tick/mesh", archive.S3Options{Endpoint: server.URL, Region: "us-east-1", AccessKeyID: "id", SecretAccessKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]backupTarget{
		"folder": {name: dir, store: archive.NewFolder(dir), server: []string{"--nodes", "3", "--replication", "2", "--shards", "8"}},
		"s3": {
			name: "s3://backups/tick/mesh", flags: []string{"--s3-endpoint", server.URL, "--s3-region", "us-east-1"}, store: bucket,
			environ: []string{"TICKMESH_S3_ACCESS_KEY_ID=id", "TICKMESH_S3_SECRET_ACCESS_KEY=key"},
		},
	}
}

// run runs a command on the target, which has to succeed.
func (b *backupTarget) run(t *testing.T, arguments ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := run(t, b.environ, append(append(slices.Clone(arguments), b.flags...), b.name)...)
	if code != 0 {
		t.Fatalf("%q: %d %q %q", arguments, code, stdout, stderr)
	}
	return stdout, stderr
}

// fails runs a command on the target, which has to fail and say so.
func (b *backupTarget) fails(t *testing.T, text string, arguments ...string) {
	t.Helper()
	code, stdout, stderr := run(t, b.environ, append(append(slices.Clone(arguments), b.flags...), b.name)...)
	if code != 1 || !strings.Contains(stdout+stderr, text) {
		t.Errorf("%q: %d %q %q, want %q", arguments, code, stdout, stderr, text)
	}
}

// model is what a server has: bits by database, series and time.
type model map[string]map[string]uint64

func (m model) put(t *testing.T, c *client.Client, list []client.Sample) {
	t.Helper()
	if err := c.Write(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		database := x.Series.Database()
		if m[database] == nil {
			m[database] = map[string]uint64{}
		}
		m[database][sampleName(x.Series, x.TimeMs)] = math.Float64bits(x.Value)
	}
}

func (m model) clone() model {
	other := model{}
	for database, samples := range m {
		other[database] = maps.Clone(samples)
	}
	return other
}

func (m model) compare(t *testing.T, c *client.Client) {
	t.Helper()
	for database, want := range m {
		got := contents(t, c, database)
		if !maps.Equal(got, want) {
			t.Errorf("database %q has %d samples, want %d, or others", database, len(got), len(want))
		}
	}
}

// samples returns how many samples there are.
func (m model) samples() (n int) {
	for _, list := range m {
		n += len(list)
	}
	return n
}

// TestBackups backs a server up while writes go on, deletes, overwrites, backs up what has
// changed, with a kill in the middle, prunes, and restores each backup into an empty
// server: it has what the server had.
func TestBackups(t *testing.T) {
	t.Parallel()
	for kind, target := range backupTargets(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testBackups(t, &target)
		})
	}
}

func testBackups(t *testing.T, target *backupTarget) {
	server := startServer(t, t.TempDir(), append([]string{"--query-samples-max", "200"}, target.server...)...)
	source := connect(t, server)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	now, written := model{}, []client.Sample{}
	for _, database := range []string{"", "one", troublesome(random)} {
		list := randomSamples(t, random, database, 10)
		now.put(t, source, list)
		written = append(written, list...)
	}
	live := writeOn(t, source)
	addr := []string{"--addr", server.addr["grpc"], "--object-bytes", "3000"}
	back := func(arguments ...string) (backupReport, model, int64) {
		acknowledged := live.acknowledged.Load()
		report := filepath.Join(t.TempDir(), "report")
		target.run(t, append(append([]string{"backup", "--report", report}, addr...), arguments...)...)
		text, err := os.ReadFile(report)
		if err != nil {
			t.Fatal(err)
		}
		var r backupReport
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		return r, now.clone(), acknowledged
	}
	first, _, _ := back("--name", "first")
	if first.WrittenBytes < first.Bytes || first.Samples < int64(now.samples()) {
		t.Fatalf("%+v, want %d samples", first, now.samples())
	}
	// Some samples get other values, those of one metric go, new ones come.
	for i := range written {
		if written[i].Value += 1.5; i%10 > 0 {
			continue
		}
		now.put(t, source, written[i:i+1])
	}
	deleteMetric(t, source, now, written[random.IntN(len(written))].Series)
	now.put(t, source, randomSamples(t, random, "two", 3))
	second, atSecond, liveAtSecond := back("--name", "second", "--incremental")
	if second.WrittenBytes == 0 || second.WrittenBytes > first.WrittenBytes*2/3 {
		t.Errorf("%d bytes were written at first, then %d", first.WrittenBytes, second.WrittenBytes)
	}
	target.fails(t, "complete backup", append([]string{"backup", "--name", "second"}, addr...)...)
	now.put(t, source, randomSamples(t, random, "one", 5))
	killBackup(t, target, "third", append([]string{"backup", "--name", "third", "--incremental"}, addr...))
	target.fails(t, "cut short", "restore", "--addr", server.addr["grpc"], "--name", "third")
	_, stderr := target.run(t, "backup", "prune", "--name", "first")
	if !strings.Contains(stderr, "backup first deleted") {
		t.Error(stderr)
	}
	_, atThird, liveAtThird := back("--incremental", "--name", "third")
	live.stop()

	listed, _ := target.run(t, "backup", "list", "--output", "json")
	var list []backupReport
	if err := json.Unmarshal([]byte(listed), &list); err != nil || len(list) != 2 || list[0].Name != "second" || list[1].Name != "third" || !list[1].Complete {
		t.Errorf("%v: %s", err, listed)
	}
	target.run(t, "backup", "verify", "--name", "second", "--restore", t.TempDir())
	restoreInto(t, target, "second", atSecond, liveAtSecond)
	restoreInto(t, target, "third", atThird, liveAtThird)
	testDamagedBackup(t, target)
}

// TestIncrementalBackupReadsWhatChanged: of days that have not changed, an incremental backup has nodes read the digests that their
// files have, once for each day of a series, and no sample, whatever happened to files meanwhile. Of a late sample they read that day.
func TestIncrementalBackupReadsWhatChanged(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"alone":   nil,
		"cluster": {"--nodes", "3", "--replication", "2", "--shards", "8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testCountedBackups(t, flags)
		})
	}
}

func testCountedBackups(t *testing.T, flags []string) {
	b := newCountedBackups(t, append(slices.Clone(flags), "--admin")...)
	const read = countedDays * countedSeries // a digest of each day of each series
	expect := func(name string, wantSamples, mostSamples, wantDigests float64) {
		t.Helper()
		if samples, digests := b.back(t, name); samples < wantSamples || samples > mostSamples || digests != wantDigests {
			t.Errorf("%s: %v samples and %v digests were read, not %v to %v and %v", name, samples, digests, wantSamples, mostSamples, wantDigests)
		}
	}
	expect("first", countedSamples, countedSamples, read)
	expect("same", 0, 0, read)
	b.start(t)
	expect("restarted", 0, 0, read)
	if len(flags) == 0 { // a server of its own can be told to
		b.settle(t)
		expect("merged", 0, 0, read)
	}
	b.change(t)
	// That day of one series for its digest, where the sample is there twice; then that day of all, as they are one unit.
	const day = countedPerDay * (1 + countedSeries)
	expect("changed", day, day+2, read-1)
	restoreInto(t, &b.target, "changed", b.now, 0)
	restoreInto(t, &b.target, "changed", b.now, 0, "--nodes", "3", "--replication", "2", "--shards", "8")
	// Until the late sample is merged the day is read for its digest.
	expect("unchanged", 0, countedPerDay+1, read-1)
}

const (
	countedDays, countedSeries, countedPerDay = 10, 3, 24 * 60
	countedSamples                            = countedDays * countedSeries * countedPerDay
)

// countedBackups are backups of a server whose samples lie in files, and what they read.
type countedBackups struct {
	dir    string
	flags  []string
	server *testServer
	source *client.Client
	list   []client.Sample
	now    model
	target backupTarget
}

func newCountedBackups(t *testing.T, flags ...string) *countedBackups {
	t.Helper()
	const stepMs = 60_000
	b := &countedBackups{
		dir: t.TempDir(), flags: append(flags, "--digest-interval", "0"), now: model{},
		target: backupTarget{name: filepath.Join(t.TempDir(), "backups")},
	}
	b.start(t)
	startMs := time.Now().UTC().Truncate(24*time.Hour).UnixMilli() - (countedDays+30)*countedPerDay*stepMs
	for n := range countedSeries {
		s, err := client.NewSeries("m", client.Tag{Name: "n", Value: strconv.Itoa(n)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(countedDays * countedPerDay) {
			b.list = append(b.list, client.Sample{Series: s, TimeMs: startMs + i*stepMs, Value: float64(i % 977)})
		}
	}
	b.now.put(t, b.source, b.list)
	return b
}

// start starts the server, after a clean end of the one that ran before.
func (b *countedBackups) start(t *testing.T) {
	t.Helper()
	if b.server != nil {
		b.server.signal(syscall.SIGTERM)
		b.server.wait()
	}
	b.server = startServer(t, b.dir, b.flags...)
	b.source = connect(t, b.server)
}

// settle has nodes bring everything into as few files as they can.
func (b *countedBackups) settle(t *testing.T) {
	t.Helper()
	if status, body := b.server.as("", "POST", "/admin/settle", ""); status >= 300 {
		t.Fatal(status, body)
	}
}

// back makes an incremental backup and returns how many samples and digests nodes read for it.
func (b *countedBackups) back(t *testing.T, name string) (samples, digests float64) {
	t.Helper()
	samples, digests = figuresOf(t, b.server, "tickmesh_snapshot_samples_read_total"), figuresOf(t, b.server, "tickmesh_snapshot_digests_read_total")
	b.target.run(t, "backup", "--addr", b.server.addr["grpc"], "--incremental", "--name", name)
	return figuresOf(t, b.server, "tickmesh_snapshot_samples_read_total") - samples, figuresOf(t, b.server, "tickmesh_snapshot_digests_read_total") - digests
}

// change replaces one sample.
func (b *countedBackups) change(t *testing.T) {
	t.Helper()
	changed := b.list[4*countedPerDay : 4*countedPerDay+1]
	changed[0].Value++
	b.now.put(t, b.source, changed)
}

// restoreInto restores a backup into an empty server and compares it.
func restoreInto(t *testing.T, target *backupTarget, name string, want model, live int64, flags ...string) {
	t.Helper()
	server := startServer(t, t.TempDir(), flags...)
	c := connect(t, server)
	arguments := []string{"restore", "--addr", server.addr["grpc"], "--name", name}
	target.fails(t, "differs from the backup", append(arguments, "--verify")...)
	for n := range 2 {
		_, stderr := target.run(t, arguments...)
		if n == 1 && !strings.HasPrefix(stderr, "0 samples written") {
			t.Errorf("again: %s", stderr)
		}
		if strings.Contains(stderr, "left out") {
			t.Errorf("a server that keeps all samples is said to have left some out: %s", stderr)
		}
		target.run(t, append(arguments, "--verify")...)
	}
	want.compare(t, c)
	got := contents(t, c, liveDatabase)
	for n := range live {
		if _, ok := got[sampleName(liveSeries(t), n)]; !ok {
			t.Fatalf("write %d of %d that were acknowledged before backup %s is not in it", n, live, name)
		}
	}
}

const liveDatabase = "live"

func liveSeries(t *testing.T) *client.Series {
	t.Helper()
	s, err := client.NewSeriesIn(liveDatabase, "n")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// liveWrites are writes that go on while there are backups.
type liveWrites struct {
	acknowledged atomic.Int64 // sample n is at time n
	end, ended   chan struct{}
}

func writeOn(t *testing.T, c *client.Client) *liveWrites {
	l := &liveWrites{end: make(chan struct{}), ended: make(chan struct{})}
	s := liveSeries(t)
	go func() {
		defer close(l.ended)
		for n := int64(0); ; n++ {
			select {
			case <-l.end:
				return
			default:
			}
			if err := c.Write(t.Context(), client.Sample{Series: s, TimeMs: n, Value: float64(n)}); err != nil {
				return // the next restore misses it
			}
			l.acknowledged.Store(n + 1)
		}
	}()
	return l
}

func (l *liveWrites) stop() {
	close(l.end)
	<-l.ended
}

// deleteMetric deletes the metric of a series, from the model too.
func deleteMetric(t *testing.T, c *client.Client, m model, s *client.Series) {
	t.Helper()
	selector := scan.Selector{Database: s.Database(), Metric: s.Metric()}
	if _, err := c.Delete(t.Context(), selector, scan.TimeMsMin, scan.TimeMsMax); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(m[s.Database()], func(name string, _ uint64) bool { return strings.HasPrefix(name, fmt.Sprintf("%q ", s.Metric())) })
}

// killBackup starts a backup and kills it once it has begun to write, until one was not
// complete before that.
func killBackup(t *testing.T, target *backupTarget, name string, arguments []string) {
	t.Helper()
	for range 10 {
		if !completeBefore(t, target, name, arguments) {
			return
		}
		target.run(t, "backup", "prune", "--name", name)
	}
	t.Fatal("each backup was complete before it was killed")
}

func completeBefore(t *testing.T, target *backupTarget, name string, arguments []string) bool {
	t.Helper()
	cmd := exec.Command(binary, append(append(slices.Clone(arguments), target.flags...), target.name)...)
	cmd.Env = append(cleanEnviron(), target.environ...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a backup that is begun", func() bool {
		list, err := archive.List(t.Context(), target.store)
		return err == nil && slices.ContainsFunc(list, func(e archive.Entry) bool { return e.Name == name })
	})
	_ = cmd.Process.Kill() // it is quick, perhaps
	_ = cmd.Wait()
	list, err := archive.List(t.Context(), target.store)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(e archive.Entry) bool { return e.Name == name && e.Complete() })
}

// testDamagedBackup: a damaged backup is refused before anything is written, and pruned
// backups leave nothing.
func testDamagedBackup(t *testing.T, target *backupTarget) {
	server := startServer(t, t.TempDir())
	var objects []archive.Info
	for info, err := range target.store.List(t.Context(), "objects/") {
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, info)
	}
	for _, o := range objects { // what a killed backup left is among them
		if err := target.store.Put(t.Context(), o.Key, []byte("damaged")); err != nil {
			t.Fatal(err)
		}
	}
	target.fails(t, "damaged", "restore", "--addr", server.addr["grpc"], "--name", "second")
	target.fails(t, "damaged", "backup", "verify")
	if list, err := connect(t, server).Databases(t.Context(), client.Names{}); err != nil || len(list) > 0 {
		t.Errorf("a damaged backup was written: %q %v", list, err)
	}
	target.run(t, "backup", "prune", "--name", "second,third")
	for info, err := range target.store.List(t.Context(), "") {
		t.Fatalf("%v is left, %v", info, err)
	}
}

// A backup of all databases by a user who may not read them all fails and says so; one of
// databases that it may read works, and one of others fails.
func TestBackupOfReadableDatabases(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "auth.yaml")
	authFile(t, users, map[string]string{"some": "a: read", "admin": "'*': admin"})
	s := startServer(t, t.TempDir(), "--auth-file", users, "--udp-user", "admin")
	for _, database := range []string{"a", "b"} {
		if status, body := s.as("admin", "POST", "/write?db="+database, "m value=1"); status != 204 {
			t.Fatalf("%d %s", status, body)
		}
	}
	dir := filepath.Join(t.TempDir(), "backups")
	for _, c := range []struct {
		user string
		more []string
		text string // of the failure; empty: it works
	}{
		{"some", nil, "may not read"}, {"some", []string{"--databases", "a,b"}, `database "b" has no series, or may not be read`},
		{"some", []string{"--databases", "a"}, ""}, {"admin", []string{"--name", "all"}, ""},
	} {
		code, stdout, stderr := run(t, nil, append([]string{"backup", "--addr", s.addr["grpc"], "--token", c.user, dir}, c.more...)...)
		if (code == 0) != (c.text == "") || !strings.Contains(stdout+stderr, c.text) {
			t.Errorf("%s %v: %d %s %s", c.user, c.more, code, stdout, stderr)
		}
	}
}
