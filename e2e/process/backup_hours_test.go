package process

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
)

const (
	hourOfBackupMs = 3600_000
	dayOfBackupMs  = 24 * hourOfBackupMs
)

// hoursLab is what some series of a metric were given.
type hoursLab struct {
	series  []*client.Series
	samples []map[int64]float64
}

// newHoursLab draws series from six days ago on: several samples in most hours, of which some are NaN.
func newHoursLab(t *testing.T, random *rand.Rand) *hoursLab {
	t.Helper()
	l := &hoursLab{}
	today := time.Now().UTC().Truncate(24 * time.Hour).UnixMilli()
	for i := range 4 {
		s, err := client.NewSeries("hours", client.Tag{Name: "n", Value: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		samples := map[int64]float64{}
		for hour := today - 6*dayOfBackupMs; hour < today-hourOfBackupMs; hour += hourOfBackupMs {
			for range random.IntN(9) {
				v := math.Round(random.NormFloat64()*1000) / 10
				switch random.IntN(8) {
				case 0:
					v = math.NaN()
				case 1:
					v = random.NormFloat64() * 1e12
				}
				samples[hour+10+random.Int64N(hourOfBackupMs-10)] = v
			}
		}
		l.series, l.samples = append(l.series, s), append(l.samples, samples)
	}
	return l
}

func (l *hoursLab) write(t *testing.T, c *client.Client) {
	t.Helper()
	var list []client.Sample
	for i, samples := range l.samples {
		for at, v := range samples {
			list = append(list, client.Sample{Series: l.series[i], TimeMs: at, Value: v})
		}
	}
	if err := c.Write(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
}

// windows returns what windows should tell, added up hour by hour.
func (l *hoursLab) windows(widthMs int64) map[string]string {
	told := map[string]string{}
	for i, samples := range l.samples {
		type window struct {
			count                      int64
			sum, hourSum               float64
			least, most, first, latest float64
			hour                       int64
		}
		found := map[int64]*window{}
		for _, at := range slices.Sorted(maps.Keys(samples)) {
			v := samples[at]
			if math.IsNaN(v) {
				continue
			}
			w := found[at/widthMs]
			if w == nil {
				w = &window{least: v, most: v, first: v, hour: at / hourOfBackupMs}
				found[at/widthMs] = w
			}
			if hour := at / hourOfBackupMs; hour != w.hour {
				w.sum, w.hourSum, w.hour = w.sum+w.hourSum, 0, hour
			}
			w.count, w.hourSum, w.latest = w.count+1, w.hourSum+v, v
			w.least, w.most = min(w.least, v), max(w.most, v)
		}
		for start, w := range found {
			told[fmt.Sprintf("%d at %d", i, start*widthMs)] = tellWindow(w.count, w.sum+w.hourSum, w.least, w.most, w.first, w.latest)
		}
	}
	return told
}

func tellWindow(count int64, values ...float64) string {
	text := fmt.Sprint(count)
	for _, v := range values {
		text += fmt.Sprintf(" %x", math.Float64bits(v))
	}
	return text
}

// compare compares windows of hours and days.
func (l *hoursLab) compare(t *testing.T, what string, c *client.Client) {
	t.Helper()
	for _, widthMs := range []int64{hourOfBackupMs, dayOfBackupMs} {
		want, got := l.windows(widthMs), map[string]string{}
		query := client.Query{Selector: scan.Selector{Metric: "hours"}, FromMs: 0, ToMs: scan.TimeMsMax, Windows: &scan.Windows{
			WidthMs:    widthMs,
			Aggregates: scan.AggregateCount | scan.AggregateSum | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast,
		}}
		for chunk, err := range c.Query(t.Context(), query) {
			if err != nil {
				t.Fatal(err)
			}
			for i, at := range chunk.TimesMs {
				name := fmt.Sprintf("%s at %d", chunk.Series.Tags()[0].Value, at)
				got[name] = tellWindow(chunk.Count[i], chunk.Sum[i], chunk.Min[i], chunk.Max[i], chunk.First[i], chunk.Last[i])
			}
		}
		for name, text := range want {
			if got[name] != text {
				t.Fatalf("%s: windows of %d ms of %s are %q, want %q", what, widthMs, name, got[name], text)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d windows of %d ms, want %d", what, len(got), widthMs, len(want))
		}
	}
}

// visible returns how many samples reads show.
func (l *hoursLab) visible(t *testing.T, c *client.Client) (n int) {
	t.Helper()
	for chunk, err := range c.Query(t.Context(), client.Query{Selector: scan.Selector{Metric: "hours"}, FromMs: 0, ToMs: scan.TimeMsMax}) {
		if err != nil {
			t.Fatal(err)
		}
		n += len(chunk.TimesMs)
	}
	return n
}

// TestBackupOfHours: windows of hours before raw, of which a server has the last samples beside rollups, are the same after a restore, on one node and
// on three, and so are those of a backup of before raw. Where all samples are kept, hours with rollups are refused.
func TestBackupOfHours(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	lab := newHoursLab(t, rand.New(rand.NewPCG(seed, 0)))
	dir := t.TempDir()
	rules := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("databases:\n  default: {"+text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	changing, raw, all := rules("source.yaml", "retention: 1y"), rules("raw.yaml", "raw: 2d, retention: 1y"), rules("all.yaml", "retention: 1y")
	server := startServer(t, t.TempDir(), "--databases-file", changing)
	source := connect(t, server)
	lab.write(t, source)
	lab.compare(t, "as it was written", source)
	before, after := backupTarget{name: filepath.Join(dir, "before")}, backupTarget{name: filepath.Join(dir, "after")}
	addr := []string{"--addr", server.addr["grpc"]}
	before.run(t, append([]string{"backup"}, addr...)...)
	written := lab.visible(t, source)
	rules("source.yaml", "raw: 2d, retention: 1y")
	deadline := time.Now().Add(2 * time.Minute)
	for lab.visible(t, source) == written {
		if time.Now().After(deadline) {
			t.Fatal("raw is not in force")
		}
		time.Sleep(200 * time.Millisecond)
	}
	lab.compare(t, "with raw", source)
	after.run(t, append([]string{"backup"}, addr...)...)
	before.run(t, append([]string{"backup", "--incremental"}, addr...)...)
	shown := lab.visible(t, source)

	for name, flags := range map[string][]string{
		"a node":      {"--databases-file", raw},
		"three nodes": {"--databases-file", raw, "--nodes", "3", "--replication", "2", "--shards", "8"},
	} {
		for _, target := range []*backupTarget{&before, &after} {
			restored := startServer(t, t.TempDir(), flags...)
			c := connect(t, restored)
			for range 2 { // the second finds all there
				target.run(t, "restore", "--addr", restored.addr["grpc"])
				lab.compare(t, name, c)
				if got := lab.visible(t, c); got != shown {
					t.Fatalf("%s: %d samples, want %d", name, got, shown)
				}
			}
			target.run(t, "restore", "--addr", restored.addr["grpc"], "--verify")
		}
	}
	list, _ := before.run(t, "backup", "list", "--output", "json")
	name, _, _ := strings.Cut(list[strings.Index(list, `"name"`)+len(`"name"`)+1:], ",")
	old := startServer(t, t.TempDir(), "--databases-file", raw)
	before.run(t, "restore", "--addr", old.addr["grpc"], "--name", strings.Trim(name, `" :`))
	lab.compare(t, "of a backup of before raw", connect(t, old))

	keeps := startServer(t, t.TempDir(), "--databases-file", all)
	c := connect(t, keeps)
	after.fails(t, "--last-samples", "restore", "--addr", keeps.addr["grpc"])
	if n := lab.visible(t, c); n != 0 {
		t.Fatalf("%d samples were written", n)
	}
	after.run(t, "restore", "--last-samples", "--addr", keeps.addr["grpc"])
	if n := lab.visible(t, c); n != shown {
		t.Fatalf("%d samples, want %d", n, shown)
	}
	after.run(t, "backup", "verify", "--restore", t.TempDir())
}

// TestRestoreTellsWhatIsLeftOut: where a cut of raw is in force that is later than the rules say, a restore says how many samples the server has not
// kept.
func TestRestoreTellsWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	lab := newHoursLab(t, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)))
	rules := filepath.Join(t.TempDir(), "databases.yaml")
	write := func(text string) {
		if err := os.WriteFile(rules, []byte("databases:\n  default: {"+text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("retention: 1y")
	server := startServer(t, t.TempDir(), "--databases-file", rules)
	c := connect(t, server)
	lab.write(t, c)
	written := lab.visible(t, c)
	target := backupTarget{name: filepath.Join(t.TempDir(), "backups")}
	target.run(t, "backup", "--addr", server.addr["grpc"])
	write("raw: 2d, retention: 1y")
	waitFor(t, "raw in force", func() bool { return lab.visible(t, c) < written })
	shown := lab.visible(t, c)
	write("raw: 60d, retention: 1y")
	waitFor(t, "the rule", func() bool {
		ms, err := c.RawFrom(t.Context(), "", "hours")
		return err == nil && ms < time.Now().UnixMilli()-50*dayOfBackupMs
	})
	_, stderr := target.run(t, "restore", "--addr", server.addr["grpc"])
	if want := fmt.Sprintf("%d samples were left out by the cluster", written-shown); !strings.Contains(stderr, want) {
		t.Errorf("%q, want %q", stderr, want)
	}
	if got := lab.visible(t, c); got != shown {
		t.Errorf("%d samples, want %d", got, shown)
	}
	write("raw: 2d, retention: 1y")
	waitFor(t, "the rule", func() bool {
		ms, err := c.RawFrom(t.Context(), "", "hours")
		return err == nil && ms > time.Now().UnixMilli()-50*dayOfBackupMs
	})
	if _, stderr = target.run(t, "restore", "--addr", server.addr["grpc"]); strings.Contains(stderr, "left out") {
		t.Errorf("with raw as it was: %q", stderr)
	}
}

// TestBackupOfHoursThatEndInNaN: hours that end in a NaN have no more numbers than samples are left, and still have rollups. Beside them, hours since raw with
// one sample need none.
func TestBackupOfHoursThatEndInNaN(t *testing.T) {
	t.Parallel()
	lab := &hoursLab{}
	today := time.Now().UTC().Truncate(24 * time.Hour).UnixMilli()
	for i := range 2 {
		s, err := client.NewSeries("hours", client.Tag{Name: "n", Value: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		samples := map[int64]float64{}
		for hour := today - 200*dayOfBackupMs; hour < today-hourOfBackupMs; hour += 7 * hourOfBackupMs {
			samples[hour+10] = float64(hour%1000) + float64(i)
			if hour < today-90*dayOfBackupMs {
				samples[hour+20] = math.NaN()
			}
		}
		lab.series, lab.samples = append(lab.series, s), append(lab.samples, samples)
	}
	rules := filepath.Join(t.TempDir(), "databases.yaml")
	write := func(text string) {
		if err := os.WriteFile(rules, []byte("databases:\n  default: {"+text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("retention: 1y")
	server := startServer(t, t.TempDir(), "--databases-file", rules)
	source := connect(t, server)
	lab.write(t, source)
	written := lab.visible(t, source)
	write("raw: 80d, retention: 1y")
	deadline := time.Now().Add(2 * time.Minute)
	for lab.visible(t, source) == written {
		if time.Now().After(deadline) {
			t.Fatal("raw is not in force")
		}
		time.Sleep(200 * time.Millisecond)
	}
	shown := lab.visible(t, source)
	target := backupTarget{name: filepath.Join(t.TempDir(), "backups")}
	target.run(t, "backup", "--addr", server.addr["grpc"])
	restored := startServer(t, t.TempDir(), "--databases-file", rules)
	target.run(t, "restore", "--addr", restored.addr["grpc"])
	c := connect(t, restored)
	lab.compare(t, "restored", c)
	if got := lab.visible(t, c); got != shown {
		t.Fatalf("%d samples, want %d", got, shown)
	}
}
