package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// modelSeries is a series as the oracle keeps it.
type modelSeries struct {
	database, metric string
	tags             map[string]string
	shard            uint16
	id               series.ID
	months           map[Month]bool
	days             map[Day]bool // after a crash some may be gone that a month still tells of
	emptied          bool         // and not settled: no query finds it, and its marks are still on disk
	cached           series.Key
}

func (s *modelSeries) key() series.Key {
	if s.cached != nil {
		return s.cached
	}
	var tags []series.Tag
	for name, value := range s.tags {
		tags = append(tags, series.Tag{Name: []byte(name), Value: []byte(value)})
	}
	s.cached = series.AppendKey(nil, []byte(s.database), []byte(s.metric), tags)
	return s.cached
}

func (s *modelSeries) clone() *modelSeries {
	c := *s
	c.months, c.days = maps.Clone(s.months), maps.Clone(s.days)
	return &c
}

// mark notes samples on a day.
func (s *modelSeries) mark(day Day) {
	s.days[day], s.months[day.Month()] = true, true
}

func (s *modelSeries) forget() {
	s.days, s.months, s.emptied = map[Day]bool{}, map[Month]bool{}, false
}

// activeIn reports whether a query of a range of days has to find the series, if the days of
// some months are not known.
func (s *modelSeries) activeIn(r Days, coarse func(Month) bool) bool {
	if s.emptied {
		return false
	}
	for day := range s.days {
		if day >= r.From && day <= r.To {
			return true
		}
	}
	for month := range s.months {
		of := month.Days()
		if of.From >= r.From && of.To <= r.To || coarse(month) && of.From <= r.To && of.To >= r.From {
			return true
		}
	}
	return false
}

// matchSlow follows the words of api/scan.
func (s *modelSeries) matchSlow(m scan.Matcher) bool {
	value, has := s.tags[m.Name]
	fold := func(v string) bool { return strings.EqualFold(v, value) }
	switch m.Kind {
	case scan.MatchEqual:
		return value == m.Values[0]
	case scan.MatchNotEqual:
		return value != m.Values[0]
	case scan.MatchIn:
		return slices.Contains(m.Values, value)
	case scan.MatchNotIn:
		return !slices.Contains(m.Values, value)
	case scan.MatchEqualFold:
		return slices.ContainsFunc(m.Values, fold)
	case scan.MatchNotEqualFold:
		return !slices.ContainsFunc(m.Values, fold)
	case scan.MatchRegexp:
		return anchored(m.Values[0]).MatchString(value)
	case scan.MatchNotRegexp:
		return !anchored(m.Values[0]).MatchString(value)
	case scan.MatchPresent:
		return has
	default:
		return !has
	}
}

var compiled sync.Map // text → *regexp.Regexp

func anchored(text string) *regexp.Regexp {
	re, ok := compiled.Load(text)
	if !ok {
		re, _ = compiled.LoadOrStore(text, regexp.MustCompile("^(?:"+text+")$"))
	}
	return re.(*regexp.Regexp)
}

func (s *modelSeries) selectedBy(sel *scan.Selector) bool {
	if s.database != sel.Database || !sel.MetricAny && s.metric != sel.Metric {
		return false
	}
	if sel.Shards != nil && !slices.Contains(sel.Shards, s.shard) {
		return false
	}
	for _, m := range sel.Matchers {
		if !s.matchSlow(m) {
			return false
		}
	}
	if sel.Exact {
		for name := range s.tags {
			if !slices.ContainsFunc(sel.Matchers, func(m scan.Matcher) bool { return m.Name == name }) {
				return false
			}
		}
	}
	return true
}

type model struct {
	series []*modelSeries // by local id
	next   map[uint16]series.ID
}

func (m *model) clone() *model {
	c := &model{next: map[uint16]series.ID{}}
	for _, s := range m.series {
		c.series = append(c.series, s.clone())
	}
	for shard, id := range m.next {
		c.next[shard] = id
	}
	return c
}

func (m *model) find(key series.Key) (int, bool) {
	for i, s := range m.series {
		if string(s.key()) == string(key) {
			return i, true
		}
	}
	return 0, false
}

var (
	valueGen = rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "A", "b", "ab", "aB", "s_1", "s_2", "s_12", "S_1", "web-1", "ſ", "\u212a", "k", "a\nb", "\xff", "�", "ß", "SS"}),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("d_%d", rapid.IntRange(0, 60).Draw(t, "n")) }),
	)
	nameGen   = rapid.SampledFrom([]string{"_field", "device", "host", "dc", ""})
	metricGen = rapid.SampledFrom([]string{"m", "m1", "cpu", "sys.cpu"})
	baseGen   = rapid.SampledFrom([]string{"", "db", "db2"})
	regexpGen = rapid.SampledFrom([]string{
		"", ".*", ".+", "s_.*", "s_.+", "s_[12]", "s_1|s_2|", "(?i)s_1", "d_(1|2)?", "d_1.", ".*1", "a|b|ab", "[^a]", "(?s).*", "a?", "d_[0-9]+",
		"�", "(a|b)(b|)", "x*", "[a-c]+", "ab?", "^a$", "(?:d_)(.*)", "s_1(?:2|)", "\\bab\\b", "[\\x{fffd}]", "d_[1-3][0-4]",
	})
	monthGen = rapid.Custom(func(t *rapid.T) Month { return Month(rapid.IntRange(670, 675).Draw(t, "month")) })
	dayGen   = rapid.Custom(func(t *rapid.T) Day {
		of := monthGen.Draw(t, "month").Days()
		return rapid.SampledFrom([]Day{of.From, of.From + 1, of.From + 14, of.To}).Draw(t, "day")
	})
)

func drawSeries(t *rapid.T) *modelSeries {
	s := &modelSeries{
		database: baseGen.Draw(t, "database"), metric: metricGen.Draw(t, "metric"),
		tags: rapid.MapOfN(nameGen, valueGen, 0, 4).Draw(t, "tags"), months: map[Month]bool{}, days: map[Day]bool{},
	}
	s.shard = s.key().Shard(5) * 300
	return s
}

func drawMatcher(t *rapid.T) scan.Matcher {
	m := scan.Matcher{Name: nameGen.Draw(t, "name"), Kind: scan.MatchKind(rapid.IntRange(0, int(scan.MatchAbsent)).Draw(t, "kind"))}
	switch m.Kind {
	case scan.MatchEqual, scan.MatchNotEqual:
		m.Values = []string{valueGen.Draw(t, "value")}
	case scan.MatchRegexp, scan.MatchNotRegexp:
		m.Values = []string{regexpGen.Draw(t, "regexp")}
	case scan.MatchPresent, scan.MatchAbsent:
	default:
		m.Values = rapid.SliceOfN(valueGen, 0, 4).Draw(t, "values")
	}
	return m
}

func drawSelector(t *rapid.T) *scan.Selector {
	s := &scan.Selector{Database: baseGen.Draw(t, "database"), Exact: rapid.Bool().Draw(t, "exact")}
	if s.MetricAny = rapid.Bool().Draw(t, "any"); !s.MetricAny {
		s.Metric = metricGen.Draw(t, "metric")
	}
	for range rapid.IntRange(0, 3).Draw(t, "matchers") {
		s.Matchers = append(s.Matchers, drawMatcher(t))
	}
	if rapid.IntRange(0, 2).Draw(t, "shards") == 0 {
		s.Shards = rapid.SliceOfNDistinct(rapid.SampledFrom([]uint16{0, 1, 300, 600, 900, 1200, 65535}), 0, 4, rapid.ID).Draw(t, "of shards")
		slices.Sort(s.Shards)
	}
	return s
}

// machine drives an index and the oracle side by side.
type machine struct {
	fs    *vfs.MemFS
	x     *Index
	m     *model
	saved *model // as of the last Sync
	state State
	few   fewRule
	days  int64 // bound of the marks of days
	rule  persistRule

	taken   Emptied // as of a moment, to be settled
	takenOf map[*modelSeries]bool
}

func (w *machine) open(t *rapid.T) {
	var err error
	w.x, err = Open(Options{FS: w.fs, Dir: "index", State: w.state, Workers: 2, hashMask: 0x3000000000000001, few: w.few, daysBytesMax: w.days, persist: w.rule, Corrupt: func(err error) {
		t.Fatalf("damage: %v", err)
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// coarse reports whether the days of a month are not known, as there are too many marks of days.
func (w *machine) coarse(month Month) bool {
	m := w.x.activity.find(month.Days().From)
	return w.days != 0 && m != nil && m.coarse()
}

func (w *machine) create(t *rapid.T) {
	for range rapid.IntRange(1, 40).Draw(t, "count") {
		s := drawSeries(t)
		day := dayGen.Draw(t, "day")
		local, exists := w.m.find(s.key())
		if exists {
			s = w.m.series[local]
		} else {
			local, s.id = len(w.m.series), w.m.next[s.shard]
			w.m.series = append(w.m.series, s)
			w.m.next[s.shard]++
		}
		s.mark(day)
		s.emptied = false
		got, err := w.x.Create(s.shard, s.id, s.key(), day)
		if err != nil || got != uint32(local) {
			t.Fatalf("create %v: %d, %v, want %d", s.key(), got, err, local)
		}
	}
}

func (w *machine) createWrongly(t *rapid.T) {
	s := drawSeries(t)
	next := w.m.next[s.shard]
	if local, exists := w.m.find(s.key()); exists {
		_, err := w.x.Create(s.shard, next+1, s.key(), benchDay)
		if w.m.series[local].id != next+1 && !errors.Is(err, ErrConflict) {
			t.Fatalf("another id of an existing key: %v", err)
		}
		return
	}
	if _, err := w.x.Create(s.shard, next+1, s.key(), benchDay); !errors.Is(err, ErrIDGap) {
		t.Fatalf("an id too far: %v", err)
	}
	if next > 0 {
		if _, err := w.x.Create(s.shard, next-1, s.key(), benchDay); !errors.Is(err, ErrConflict) {
			t.Fatalf("another key of an existing id: %v", err)
		}
	}
}

func (w *machine) mark(t *rapid.T) {
	if len(w.m.series) == 0 {
		return
	}
	local := rapid.IntRange(0, len(w.m.series)-1).Draw(t, "local")
	day := dayGen.Draw(t, "day")
	s := w.m.series[local]
	if got, want := w.x.Active(day, uint32(local)), s.activeIn(Days{day, day}, w.coarse); got != want {
		t.Fatalf("active is %v, want %v", got, want)
	}
	s.mark(day)
	if rapid.Bool().Draw(t, "stored") {
		w.x.MarkStored(day, uint32(local))
		return
	}
	w.x.MarkActive(day, uint32(local))
	s.emptied = false
}

func (w *machine) empty(t *rapid.T) {
	var locals []uint32
	for local, s := range w.m.series {
		if rapid.IntRange(0, 2).Draw(t, "empty") == 0 {
			locals, s.emptied = append(locals, uint32(local)), true
		}
	}
	w.x.Empty(append(locals, uint32(len(w.m.series)))) // one that is not known is passed over
}

func (w *machine) take(*rapid.T) {
	w.taken, w.takenOf = w.x.EmptiedNow(), map[*modelSeries]bool{}
	for _, s := range w.m.series {
		if s.emptied {
			w.takenOf[s] = true
		}
	}
}

func (w *machine) settle(*rapid.T) {
	w.x.ClearEmptied(w.taken)
	for s := range w.takenOf {
		if s.emptied {
			s.forget()
		}
	}
	w.taken, w.takenOf = Emptied{}, nil
}

func (w *machine) drop(t *rapid.T) {
	before := monthGen.Draw(t, "before")
	w.x.DropMonthsBefore(before)
	for _, s := range w.m.series {
		maps.DeleteFunc(s.months, func(m Month, _ bool) bool { return m < before })
		maps.DeleteFunc(s.days, func(d Day, _ bool) bool { return d.Month() < before })
	}
}

func (w *machine) sync(t *rapid.T) {
	state, err := w.x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	if int(state.Count) != len(w.m.series) {
		t.Fatalf("state has %d of %d series", state.Count, len(w.m.series))
	}
	w.state, w.saved = state, w.m.clone()
}

// crash cuts the power, or only the process; then replays a part of what came
// after the last Sync, as the log would.
func (w *machine) crash(t *rapid.T) {
	if rapid.Bool().Draw(t, "power") {
		w.fs = w.fs.CrashClone(vfs.CrashOptions{
			Seed: rapid.Uint64().Draw(t, "seed"), BlockPercent: rapid.IntRange(0, 100).Draw(t, "blocks"),
			NamePercent: rapid.IntRange(0, 100).Draw(t, "names"), ReorderNames: rapid.Bool().Draw(t, "disorder"),
		})
	}
	if err := w.x.Close(); err != nil {
		t.Fatal(err)
	}
	lost := w.m
	w.m = w.saved.clone()
	w.open(t)
	w.taken, w.takenOf = Emptied{}, nil
	for _, s := range w.m.series {
		s.emptied = false
	}
	// Marks may survive that were made after the Sync; drops may be undone. The
	// log says both again, and the model takes what came back as it is.
	for local, s := range w.m.series {
		for day := range s.days {
			if !w.x.Active(day, uint32(local)) && lost.series[local].days[day] {
				t.Fatalf("series %d lost day %s", local, day)
			}
		}
		s.forget()
		for month := Month(670); month <= 675; month++ {
			of := month.Days()
			s.months[month] = w.x.activity.view(of).has(uint32(local))
			for day := of.From; day <= of.To; day++ {
				if s.days[day] = w.x.Active(day, uint32(local)); s.days[day] && !s.months[month] {
					t.Fatalf("series %d is active on %s and not in its month", local, day)
				}
			}
		}
		maps.DeleteFunc(s.months, func(_ Month, active bool) bool { return !active })
		maps.DeleteFunc(s.days, func(_ Day, active bool) bool { return !active })
	}
}

func (w *machine) check(t *rapid.T) {
	if int(w.x.Len()) != len(w.m.series) {
		t.Fatalf("%d series, want %d", w.x.Len(), len(w.m.series))
	}
	for shard, next := range w.m.next {
		if got := w.x.ShardSeries(shard); got != uint32(next) {
			t.Fatalf("shard %d has %d series, want %d", shard, got, next)
		}
	}
	var keys []series.Key
	for local, s := range w.m.series {
		keys = append(keys, s.key())
		if got, ok := w.x.Local(s.shard, s.id); !ok || got != uint32(local) {
			t.Fatalf("id %d of shard %d is series %d, %v, want %d", s.id, s.shard, got, ok, local)
		}
	}
	for i := range keys {
		j := rapid.IntRange(0, i).Draw(t, "swap") // mostly near its place, or a run is rare
		if j%4 == 0 {
			keys[i], keys[j] = keys[j], keys[i]
		}
	}
	keys = append(keys, series.AppendKey(nil, []byte("nowhere"), nil, nil))
	refs := make([]series.Ref, len(keys))
	if found := w.x.ResolveBatch(LocalNone, keys, refs); found != len(w.m.series) {
		t.Fatalf("a batch finds %d of %d", found, len(w.m.series))
	}
	for i, ref := range refs {
		local, ok := w.m.find(keys[i])
		want := series.Ref{Hint: LocalNone}
		if ok {
			want = series.Ref{Hint: uint32(local), Shard: w.m.series[local].shard, ID: w.m.series[local].id}
		}
		if ref != want {
			t.Fatalf("a batch gives %v for %v, want %v", ref, keys[i], want)
		}
	}
	for local, s := range w.m.series {
		for _, hint := range []uint32{LocalNone, uint32(local), uint32(local) - 1, 1 << 31} {
			ref, ok := w.x.Resolve(hint, s.key())
			if want := (series.Ref{Hint: uint32(local), Shard: s.shard, ID: s.id}); !ok || ref != want {
				t.Fatalf("resolve %v: %v %v, want %v", s.key(), ref, ok, want)
			}
		}
		if key, err := w.x.KeyOf(s.shard, s.id, nil); err != nil || string(key) != string(s.key()) {
			t.Fatalf("key of %d: %v %v", local, key, err)
		}
	}
}

// drawDays draws a range of days, which may be none or all.
func drawDays(t *rapid.T) Days {
	if rapid.IntRange(0, 2).Draw(t, "all days") == 0 {
		return AllDays()
	}
	return Days{dayGen.Draw(t, "from"), dayGen.Draw(t, "to")}
}

func (w *machine) query(t *rapid.T) {
	selector := drawSelector(t)
	days := drawDays(t)
	var want []uint32
	for local, s := range w.m.series {
		if s.activeIn(days, w.coarse) && s.selectedBy(selector) {
			want = append(want, uint32(local))
		}
	}
	got, err := w.x.Select(context.Background(), selector, days, 0, nil)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("select %+v in %v gives\n%v, %v; want\n%v", selector, days, got, err, want)
	}
	if len(want) > 0 {
		var limit *scan.LimitError
		if _, err := w.x.Select(context.Background(), selector, days, int64(len(want)), nil); err != nil {
			t.Fatal(err)
		}
		_, err := w.x.Select(context.Background(), selector, days, int64(len(want))-1, nil)
		if len(want) > 1 && !errors.As(err, &limit) {
			t.Fatalf("over the limit: %v", err)
		}
	}
}

func (w *machine) suggest(t *rapid.T) {
	database, prefix := baseGen.Draw(t, "database"), rapid.SampledFrom([]string{"", "d", "d_1", "m", "s_", "zz", "_"}).Draw(t, "prefix")
	metric, name := rapid.SampledFrom([]string{"", "m", "cpu", "none"}).Draw(t, "metric"), nameGen.Draw(t, "name")
	limit := rapid.IntRange(0, 4).Draw(t, "limit")
	days := drawDays(t)
	lists := map[string]map[string]bool{"databases": {}, "metrics": {}, "names": {}, "values": {}}
	for _, s := range w.m.series {
		if s.activeIn(AllDays(), w.coarse) {
			lists["databases"][s.database] = true
		}
		if s.database != database || !s.activeIn(days, w.coarse) {
			continue
		}
		lists["metrics"][s.metric] = true
		if metric != "" && metric != s.metric {
			continue
		}
		for n, v := range s.tags {
			lists["names"][n] = true
			if n == name {
				lists["values"][v] = true
			}
		}
	}
	ctx := context.Background()
	check := func(what, prefix string, limit int, got []string, err error) {
		var want []string
		for s := range lists[what] {
			if strings.HasPrefix(s, prefix) {
				want = append(want, s)
			}
		}
		slices.Sort(want)
		if limit > 0 {
			want = want[:min(limit, len(want))]
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: %q %v, want %q", what, got, err, want)
		}
	}
	names := w.x.NamesOf(nil).On(days)
	got, err := names.Databases(ctx)
	check("databases", "", 0, got, err)
	got, err = names.Metrics(ctx, database, prefix, limit)
	check("metrics", prefix, limit, got, err)
	got, err = names.TagNames(ctx, database, metric, prefix, limit)
	check("names", prefix, limit, got, err)
	got, err = names.TagValues(ctx, database, metric, name, prefix, limit)
	check("values", prefix, limit, got, err)
}

func (w *machine) cardinality(t *rapid.T) {
	database := baseGen.Draw(t, "database")
	want := map[string]int64{}
	for _, s := range w.m.series {
		if s.database == database && s.activeIn(AllDays(), w.coarse) {
			want[s.metric]++
		}
	}
	list, err := w.x.MetricCardinalities(context.Background(), database, 0)
	if err != nil || len(list) != len(want) {
		t.Fatalf("%v %v, want %v", list, err, want)
	}
	for _, c := range list {
		if want[c.Metric] != c.Series {
			t.Fatalf("%v, want %v", list, want)
		}
		tags, err := w.x.TagCardinalities(context.Background(), database, c.Metric)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tags {
			values, carriers := map[string]bool{}, int64(0)
			for _, s := range w.m.series {
				if v, ok := s.tags[tag.Name]; ok && s.database == database && s.metric == c.Metric && s.activeIn(AllDays(), w.coarse) {
					values[v] = true
					carriers++
				}
			}
			if tag.Values != int64(len(values)) || tag.Series != carriers {
				t.Fatalf("%+v, want %d values, %d series", tag, len(values), carriers)
			}
		}
	}
}

func TestAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &machine{fs: vfs.NewMemFS(), m: &model{next: map[uint16]series.ID{}}}
		if rapid.Bool().Draw(t, "few") { // else they never are, in a model of this size
			w.few = fewRule{1, rapid.IntRange(1, 3).Draw(t, "share"), rapid.IntRange(1, 3).Draw(t, "share of part")}
		}
		if rapid.Bool().Draw(t, "bound") {
			w.days = rapid.Int64Range(1, 8000).Draw(t, "bytes of days")
		}
		if rapid.Bool().Draw(t, "persist") { // else it never does, in a model of this size
			w.rule = persistRule{table: rapid.IntRange(1, 50).Draw(t, "table"), share: rapid.IntRange(1, 8).Draw(t, "share"), part: rapid.Uint32Range(1, 20).Draw(t, "part")}
		}
		w.saved = w.m.clone()
		w.open(t)
		defer func() { w.x.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"create": w.create, "create more": w.create, "create wrongly": w.createWrongly, "mark": w.mark, "drop": w.drop,
			"empty": w.empty, "take": w.take, "settle": w.settle,
			"sync": w.sync, "crash": w.crash, "query": w.query, "query more": w.query, "suggest": w.suggest, "cardinality": w.cardinality,
			"":      func(t *rapid.T) {},
			"check": w.check,
		})
	})
}
