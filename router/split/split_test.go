package split

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// node is a resolver that a test controls: it learns some of a frame's
// definitions, refuses others, and can give all series new ids.
type node struct {
	shards int
	refs   map[string]series.Ref
	next   map[uint16]series.ID
}

func newNode(shards int) *node {
	return &node{shards, map[string]series.Ref{}, map[uint16]series.ID{}}
}

func (n *node) Resolve(_ uint32, keys []series.Key, refs []series.Ref) {
	for i, key := range keys {
		ref, ok := n.refs[string(key)]
		if !ok {
			ref.Hint = series.HintNone
		}
		refs[i] = ref
	}
}

func (n *node) create(key string) {
	shard := series.Key(key).Shard(n.shards)
	n.refs[key] = series.Ref{Shard: shard, ID: n.next[shard], Hint: uint32(len(n.refs))}
	n.next[shard]++
}

// renumber assigns another id to every series.
func (n *node) renumber() {
	keys := []string{}
	for key := range n.refs {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	n.refs = map[string]series.Ref{}
	for i := len(keys) - 1; i >= 0; i-- {
		n.create(keys[i])
	}
}

type sample struct {
	timeMs int64
	number series.Number
}

// decode reads a frame back: the samples of every key in their order.
func (n *node) decode(t interface{ Fatalf(string, ...any) }, f *series.Frame) map[string][]sample {
	names := map[series.Ref]string{}
	for key, ref := range n.refs {
		names[series.Ref{Shard: ref.Shard, ID: ref.ID}] = key
	}
	got, points, seen := map[string][]sample{}, 0, map[uint16]bool{}
	defined := map[string]bool{}
	for _, part := range f.Parts {
		if seen[part.Shard] {
			t.Fatalf("two parts for shard %d", part.Shard)
		}
		seen[part.Shard] = true
		var r series.BatchReader
		r.Reset(part.Batch)
		var definitions []string
		for key, ok := r.NextDefinition(); ok; key, ok = r.NextDefinition() {
			if defined[string(key)] || n.refs[string(key)] != (series.Ref{}) {
				t.Fatalf("%v is defined although it is known", key)
			}
			defined[string(key)] = true
			definitions = append(definitions, string(key))
		}
		for r.NextPoint() {
			points++
			key := names[series.Ref{Shard: part.Shard, ID: series.ID(r.Ref)}]
			if r.Ref >= uint32(series.SlotBase) {
				key = definitions[r.Ref-uint32(series.SlotBase)]
			}
			if key == "" || series.Key(key).Shard(n.shards) != part.Shard {
				t.Fatalf("shard %d: reference %d is %q", part.Shard, r.Ref, key)
			}
			got[key] = append(got[key], sample{r.TimeMs, series.Number{Mantissa: r.Mantissa, Scale: r.Scale}})
		}
		if r.Err() != nil {
			t.Fatalf("%v", r.Err())
		}
	}
	if points != f.Points {
		t.Fatalf("%d points in a frame of %d", points, f.Points)
	}
	return got
}

// expected builds the key of every point on its own. Errors counts the lines
// that have no key.
func expected(b *parse.Batch, database string, limits parse.Limits) (want map[string][]sample, errors int) {
	want = map[string][]sample{}
	for i := range b.Lines {
		l := &b.Lines[i]
		for j := l.First; j < l.First+l.Count; j++ {
			var keys parse.KeyBuilder
			if keys.Start(b, l, []byte(database), limits) != nil {
				errors++
				break
			}
			p := &b.Points[j]
			key, err := keys.Key(b.Field(p), p.FieldEscaped)
			if err != nil {
				errors++
				continue
			}
			want[string(key)] = append(want[string(key)], sample{p.TimeMs, series.Number{Mantissa: p.Mantissa, Scale: p.Scale}})
		}
	}
	return want, errors
}

func sameSamples(a, b map[string][]sample) bool {
	if len(a) != len(b) {
		return false
	}
	for key := range a {
		if !slices.Equal(a[key], b[key]) {
			return false
		}
	}
	return true
}

// drawBody makes a small body of few names, so that lines come again.
func drawBody(t *rapid.T) (body string, parser func(*parse.Batch, []byte) error) {
	number := func() string { return fmt.Sprint(rapid.IntRange(-9, 99).Draw(t, "value"), ".5") }
	word := func(names ...string) string { return rapid.SampledFrom(names).Draw(t, "word") }
	var s strings.Builder
	n := rapid.IntRange(1, 12).Draw(t, "lines")
	switch rapid.IntRange(0, 2).Draw(t, "protocol") {
	case 0:
		for range n {
			s.WriteString(word("m", "n", `m\ x`) + word("", ",a=1", ",a=1,Z=2", ",Z=2,a=1", `,a=\,`, ",a=1,a=2", ",zz=9"))
			for i := range rapid.IntRange(1, 4).Draw(t, "fields") {
				s.WriteString(" ,,,"[i:i+1] + word("value", "f", "g", `h\ h`) + "=" + strings.ReplaceAll(number(), " ", ""))
			}
			s.WriteString(word(" 17\n", " 18\n", "\n"))
		}
		return s.String(), lines
	case 1:
		for range n {
			s.WriteString("put " + word("m", "n", "m!") + " 17 " + strings.ReplaceAll(number(), " ", "") + word("", " a=1", " Z=2 a=1", " a=1  Z=2", " a=1 a=2", " _field=f a=1") + "\n")
		}
		return s.String(), puts
	}
	for i := range n {
		s.WriteString("[,,,,,,,,,,,,"[i:i+1] + `{"metric":"` + word("m", "n", `\u006d`) + `","timestamp":17,"value":` + strings.ReplaceAll(number(), " ", "") + word("", `,"tags":{"a":"1"}`, `,"tags":{"Z":2,"a":"1"}`, `,"tags":{"a":"!"}`) + "}")
	}
	return s.String() + "]", json
}

// TestSplitAgainstKeys sends batches of all protocols through one splitter and
// compares each frame with keys that were built one by one, while series become
// known, are refused, and change their ids.
func TestSplitAgainstKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.SampledFrom([]int{1, 3, 128}).Draw(t, "shards")
		limits := parse.Limits{KeyBytesMax: rapid.SampledFrom([]int{0, 20}).Draw(t, "key bytes")}
		s, err := New(Options{Shards: shards, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		n := newNode(shards)
		epoch := uint64(0)
		var moved [2]series.EncodedFrame
		var copies [2][][]byte // of the moved frames
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			body, parser := drawBody(t)
			database := rapid.SampledFrom([]string{"", "db"}).Draw(t, "database")
			var b parse.Batch
			var err error
			if b.Extra, err = parse.NewExtraLabels(rapid.SampledFrom([][]string{nil, {"host=x"}, {"host=x", "z=1"}, {"__name__=n"}}).Draw(t, "extra")); err != nil {
				t.Fatal(err)
			}
			if err := parser(&b, []byte(body)); err != nil {
				t.Fatal(err)
			}
			want, failed := expected(&b, database, limits)
			failed += b.ErrorsTotal
			frame := s.Split(&b, []byte(database), n, epoch)
			if i := rapid.IntRange(-2, 1).Draw(t, "move to"); i >= 0 {
				s.MoveTo(&moved[i])
				frame, copies[i] = &moved[i].Frame, batches(&moved[i].Frame)
			}
			for i := range moved {
				if !slices.EqualFunc(copies[i], batches(&moved[i].Frame), bytes.Equal) {
					t.Fatalf("%q: the frame that was moved to %d has changed", body, i)
				}
			}
			if got := n.decode(t, frame); !sameSamples(got, want) {
				t.Fatalf("%q: got %v, want %v", body, got, want)
			}
			if defines := len(n.unknown(want)) > 0; s.Defines() != defines {
				t.Fatalf("%q: the frame defines series: %v, want %v", body, s.Defines(), defines)
			}
			if b.ErrorsTotal != failed {
				t.Fatalf("%q: %d errors, want %d", body, b.ErrorsTotal, failed)
			}
			checkRefusals(t, s, n, &b, frame, want)
			if rapid.IntRange(0, 4).Draw(t, "renumber") == 0 {
				n.renumber()
				epoch++
			}
		}
	})
}

// batches returns copies of a frame's batches, with their shards in front.
func batches(frame *series.Frame) (copies [][]byte) {
	for _, part := range frame.Parts {
		copies = append(copies, append([]byte{byte(part.Shard), byte(part.Shard >> 8)}, part.Batch...))
	}
	return copies
}

// unknown returns those of the samples' keys that have no id.
func (n *node) unknown(samples map[string][]sample) (keys []string) {
	for key := range samples {
		if _, known := n.refs[key]; !known {
			keys = append(keys, key)
		}
	}
	return keys
}

// checkRefusals lets the node take some definitions and refuse the others.
func checkRefusals(t *rapid.T, s *Splitter, n *node, b *parse.Batch, frame *series.Frame, want map[string][]sample) {
	var outcome series.Outcome
	lost := 0
	for i, part := range frame.Parts {
		var r series.BatchReader
		r.Reset(part.Batch)
		definition := 0
		for key, ok := r.NextDefinition(); ok; key, ok = r.NextDefinition() {
			if rapid.IntRange(0, 3).Draw(t, "refuse") == 0 {
				outcome.Refused = append(outcome.Refused, series.Refusal{Part: i, Definition: definition, Err: series.ErrSeriesLimit})
				lost += len(want[string(key)])
			} else {
				n.create(string(key))
			}
			definition++
		}
	}
	before := len(b.Errors)
	if got := s.Refused(b, outcome); got != lost {
		t.Fatalf("%d points refused, want %d", got, lost)
	}
	points := 0
	for _, e := range b.Errors[before:] {
		points += e.Points
		if e.Kind != parse.KindRefused || !strings.Contains(e.Error(), series.ErrSeriesLimit.Error()) {
			t.Fatalf("%v", e)
		}
	}
	if points != lost {
		t.Fatalf("errors name %d points of %d", points, lost)
	}
}

// TestMemoServes checks that a known line does not ask the resolver again, in
// another order of lines and another batch, and does when the epoch changes.
func TestMemoServes(t *testing.T) {
	s, err := New(Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(4)
	counting := &counter{node: n}
	split := func(body string, epoch uint64) int {
		var b parse.Batch
		if err := lines(&b, []byte(body)); err != nil {
			t.Fatal(err)
		}
		counting.keys = 0
		frame := s.Split(&b, nil, counting, epoch)
		for _, part := range frame.Parts {
			var r series.BatchReader
			r.Reset(part.Batch)
			for key, ok := r.NextDefinition(); ok; key, ok = r.NextDefinition() {
				n.create(string(key))
			}
		}
		return counting.keys
	}
	const ab, ba = "m,d=a x=1,y=2\nm,d=b x=1,y=2\n", "m,d=b x=3,y=4\nm,d=a x=5,y=6\n"
	for i, step := range []struct {
		body  string
		epoch uint64
		keys  int
	}{{ab, 1, 4}, {ab, 1, 4}, {ba, 1, 0}, {"m,d=a y=1,x=2\n", 1, 2}, {"m,d=a y=1,x=2\nm,d=a x=1,y=2\n", 1, 0}, {ba, 2, 4}, {ab, 2, 0}} {
		if keys := split(step.body, step.epoch); keys != step.keys {
			t.Errorf("step %d: %d keys for the resolver, want %d", i, keys, step.keys)
		}
	}
}

type counter struct {
	*node
	keys  int
	calls int
	hits  int // first keys of calls whose hint was right
}

func (c *counter) Resolve(hint uint32, keys []series.Key, refs []series.Ref) {
	c.node.Resolve(hint, keys, refs)
	c.calls++
	c.keys += len(keys)
	if refs[0].Hint == hint+1 {
		c.hits++
	}
}

// TestHintFollowsOrder checks that bodies in the order of their creation are
// asked for in one call with the right hint, and shuffled ones by their lines.
func TestHintFollowsOrder(t *testing.T) {
	devices := []int{}
	for d := range 30 {
		devices = append(devices, d)
	}
	for name, c := range map[string]struct {
		body          func(devices []int, row int) []byte
		parser        func(*parse.Batch, []byte) error
		callsShuffled int // for 5 devices: one for all first keys, one for the rest of each line
	}{"lines": {lineBody, lines, 6}, "puts": {putBody, puts, 1}} {
		n := newNode(4)
		createAll(t, n, c.body(devices, 0), c.parser)
		s, err := New(Options{Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		split := func(devices ...int) counter {
			var b parse.Batch
			if err := c.parser(&b, c.body(devices, 0)); err != nil {
				t.Fatal(err)
			}
			counting := counter{node: n}
			if frame := s.Split(&b, nil, &counting, 1); frame.Points != 10*len(devices) {
				t.Fatalf("%s: %d points", name, frame.Points)
			}
			return counting
		}
		split(0, 1, 2, 3, 4)
		for d := 5; d < 20; d += 5 {
			if got := split(d, d+1, d+2, d+3, d+4); got.calls != 1 || got.hits != 1 || got.keys != 50 {
				t.Errorf("%s in order: %d calls, %d right hints, %d keys", name, got.calls, got.hits, got.keys)
			}
		}
		if got := split(29, 22, 27); got.keys != 30 {
			t.Errorf("%s: %d keys", name, got.keys)
		}
		if got := split(24, 28, 23, 20, 26); got.keys != 50 || name == "lines" && got.calls != c.callsShuffled {
			t.Errorf("%s shuffled: %d calls, %d keys", name, got.calls, got.keys)
		}
	}
}

// createAll creates the series of a body, in its order.
func createAll(t *testing.T, n *node, body []byte, parser func(*parse.Batch, []byte) error) {
	t.Helper()
	var b parse.Batch
	if err := parser(&b, body); err != nil {
		t.Fatal(err)
	}
	for i := range b.Lines {
		var keys parse.KeyBuilder
		l := &b.Lines[i]
		if err := keys.Start(&b, l, nil, parse.Limits{}); err != nil {
			t.Fatal(err)
		}
		for j := range l.Count {
			key, err := keys.Key(b.Field(&b.Points[l.First+j]), false)
			if err != nil {
				t.Fatal(err)
			}
			n.create(string(key))
		}
	}
}

// TestLineCacheBounds sends more lines, field sets and databases than the cache holds.
func TestLineCacheBounds(t *testing.T) {
	s, err := New(Options{Shards: 8})
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(8)
	for round := range 3 {
		for i := range 3 * lineCacheLinesMax / 8 {
			var body strings.Builder
			for j := range 8 {
				fmt.Fprintf(&body, "m,d=%d field_%d=%d,x=2 17\n", i*8+j, (i*8+j)%(fieldSetsMax+40), round)
			}
			database := fmt.Sprint("db", i%(numberedMax+3))
			var b parse.Batch
			if err := lines(&b, []byte(body.String())); err != nil {
				t.Fatal(err)
			}
			want, _ := expected(&b, database, parse.Limits{})
			for key := range want {
				if _, ok := n.refs[key]; !ok {
					n.create(key)
				}
			}
			frame := s.Split(&b, []byte(database), n, 1)
			if i%100 == 0 {
				if got := n.decode(t, frame); !sameSamples(got, want) {
					t.Fatalf("%q: got %v, want %v", body.String(), got, want)
				}
			}
			if frame.Points != 16 || len(s.lines.entries) > lineCacheLinesMax || len(s.lines.texts) > lineCacheBytesMax ||
				len(s.fieldSets.names.texts) > fieldSetsMax || len(s.databases.texts) > numberedMax {
				t.Fatalf("%d points; the cache has outgrown its bounds", frame.Points)
			}
		}
	}
}

// TestChangingWritersEmptyNoCache: a writer of ever other databases, labels or fields leaves the lines of others in the cache, and in
// the end the cache begins anew, with what comes then.
func TestChangingWritersEmptyNoCache(t *testing.T) {
	extraOf := func(label string) parse.ExtraLabels {
		extra, err := parse.NewExtraLabels([]string{label})
		if err != nil {
			t.Fatal(err)
		}
		return extra
	}
	for name, change := range map[string]func(i int, b *parse.Batch) (database, body string){
		"databases": func(i int, _ *parse.Batch) (string, string) { return fmt.Sprint("other", i), "m,d=a x=1 17\n" },
		"labels": func(i int, b *parse.Batch) (string, string) {
			b.Extra = extraOf(fmt.Sprint("run=", i))
			return "db", "m,d=a x=1 17\n"
		},
		"fields": func(i int, _ *parse.Batch) (string, string) { return "db", fmt.Sprintf("m,d=a x_%d=1 17\n", i) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Options{Shards: 4})
			if err != nil {
				t.Fatal(err)
			}
			n := newNode(4)
			counting := &counter{node: n}
			write := func(b *parse.Batch, database, body string) (asked int) {
				t.Helper()
				if err := lines(b, []byte(body)); err != nil {
					t.Fatal(err)
				}
				want, _ := expected(b, database, parse.Limits{})
				for key := range want {
					if _, ok := n.refs[key]; !ok {
						n.create(key)
					}
				}
				counting.keys = 0
				if got := n.decode(t, s.Split(b, []byte(database), counting, 1)); !sameSamples(got, want) {
					t.Fatalf("%q in %q: got %v, want %v", body, database, got, want)
				}
				return counting.keys
			}
			good := func() int {
				return write(&parse.Batch{}, "db", "m,d=a x=1 17\n") + write(&parse.Batch{Extra: extraOf("host=a")}, "db", "m,d=a x=1 17\n")
			}
			good()
			for i := range 4 * fieldSetsMax {
				var b parse.Batch
				database, body := change(i, &b)
				write(&b, database, body)
				if asked := good(); asked != 0 {
					t.Fatalf("after %d others the cache does not know the good ones' lines", i+1)
				}
			}
			// The last one has no number. Lines of it are counted, and once they are many the cache begins anew.
			var b parse.Batch
			database, body := change(4*fieldSetsMax, &b)
			if asked := write(&b, database, strings.Repeat(body, lineCacheMissesMax)); asked == 0 {
				t.Fatal("what has no number is in the cache")
			}
			write(&b, database, body)
			if asked := write(&b, database, body); asked != 0 {
				t.Error("the cache has not begun anew")
			}
		})
	}
}

// TestLinesOfUnnumberedFields: lines of one text whose fields have no number are not taken for repeats of each other.
func TestLinesOfUnnumberedFields(t *testing.T) {
	s, err := New(Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(4)
	var body strings.Builder
	for i := range fieldSetsMax + 40 {
		fmt.Fprintf(&body, "m,d=a x_%d=%d 17\n", i, i)
	}
	var b parse.Batch
	if err := lines(&b, []byte(body.String())); err != nil {
		t.Fatal(err)
	}
	want, _ := expected(&b, "", parse.Limits{})
	if got := n.decode(t, s.Split(&b, nil, n, 1)); !sameSamples(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// TestLongTextsHaveNoNumbers: what tells lines apart is bounded in bytes, not only in number, and comes out right where it is not known.
func TestLongTextsHaveNoNumbers(t *testing.T) {
	s, err := New(Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(4)
	for i := range 3 * numberedBytesMax / (40 << 10) {
		long := strings.Repeat(fmt.Sprintf("_%d", i), 20_480)[:40<<10]
		database := long[:len(long)/2]
		extra, err := parse.NewExtraLabels([]string{"l=" + long[:30<<10]})
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		body.WriteString("m,d=a ")
		for f := range 40 {
			fmt.Fprintf(&body, "f%d_%s=1,", f, long[:1<<10])
		}
		body.WriteString("z=1 17\n")
		for range 2 {
			b := parse.Batch{Extra: extra}
			if err := lines(&b, []byte(body.String())); err != nil {
				t.Fatal(err)
			}
			want, _ := expected(&b, database, parse.Limits{})
			for key := range want {
				if _, ok := n.refs[key]; !ok {
					n.create(key)
				}
			}
			if got := n.decode(t, s.Split(&b, []byte(database), n, 1)); !sameSamples(got, want) {
				t.Fatalf("round %d: got %d samples, want %d", i, len(got), len(want))
			}
		}
	}
	for what, n := range map[string]*numbering{"databases": &s.databases, "labels": &s.extraLabels, "fields": &s.fieldSets.names} {
		held := 0
		for _, text := range n.texts {
			held += len(text)
		}
		if held == 0 || held != n.bytes || held > numberedBytesMax {
			t.Errorf("%s: %d bytes, counted as %d, at most %d", what, held, n.bytes, numberedBytesMax)
		}
	}
}

// TestNoLineIsTakenForAnothers writes few lines in ever other databases, with ever other labels, fields and forms, and compares
// each frame with what was written.
func TestNoLineIsTakenForAnothers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, err := New(Options{Shards: 2})
		if err != nil {
			rt.Fatal(err)
		}
		n := newNode(2)
		wide := rapid.SampledFrom([]int{2, numberedMax + 2, fieldSetsMax + 2}).Draw(rt, "wide")
		number := rapid.IntRange(0, wide)
		epoch := uint64(1)
		for range rapid.IntRange(1, 200).Draw(rt, "batches") {
			switch rapid.IntRange(0, 20).Draw(rt, "before") {
			case 0:
				epoch++
			case 1:
				s.lines.misses = lineCacheMissesMax
			}
			var b parse.Batch
			if extra := number.Draw(rt, "extra"); extra > 0 {
				if b.Extra, err = parse.NewExtraLabels([]string{fmt.Sprint("run=", extra)}); err != nil {
					rt.Fatal(err)
				}
			}
			database := fmt.Sprint(number.Draw(rt, "database"))
			var body strings.Builder
			for range rapid.IntRange(1, 6).Draw(rt, "lines") {
				fmt.Fprintf(&body, "m,d=%d f%d=1 17\n", rapid.IntRange(0, 1).Draw(rt, "tag"), number.Draw(rt, "field"))
			}
			if err := lines(&b, []byte(body.String())); err != nil {
				rt.Fatal(err)
			}
			want, _ := expected(&b, database, parse.Limits{})
			for key := range want {
				if _, ok := n.refs[key]; !ok {
					n.create(key)
				}
			}
			if got := n.decode(t, s.Split(&b, []byte(database), n, epoch)); !sameSamples(got, want) {
				rt.Fatalf("%q in %s: got %v, want %v", body.String(), database, got, want)
			}
		}
	})
}

func TestNewRefusesOptions(t *testing.T) {
	for _, shards := range []int{-1, 0, 1<<16 + 1} {
		if _, err := New(Options{Shards: shards}); !errors.Is(err, ErrOptions) {
			t.Errorf("%d shards: %v", shards, err)
		}
	}
}

// TestSplitDoesNotAllocate checks the hot paths of a warm splitter: lines that
// the cache knows, and lines that only the resolver knows.
func TestSplitDoesNotAllocate(t *testing.T) {
	for name, c := range map[string]struct {
		body   []byte
		parser func(*parse.Batch, []byte) error
	}{"lines": {lineBody([]int{1, 2, 3}, 5), lines}, "puts": {putBody([]int{1, 2, 3}, 5), puts}, "json": {jsonBody([]int{1, 2, 3}, 5), json}} {
		s, err := New(Options{Shards: benchShards})
		if err != nil {
			t.Fatal(err)
		}
		known := newCatalogue()
		var b parse.Batch
		epoch := uint64(1)
		run := func() {
			if err := c.parser(&b, c.body); err != nil {
				t.Fatal(err)
			}
			s.Split(&b, nil, known, epoch)
		}
		run()
		known.learn(s.frame.Frame())
		run()
		if allocations := testing.AllocsPerRun(100, run); allocations != 0 {
			t.Errorf("%s: %v allocations for 30 points", name, allocations)
		}
		resolve := func() { // a new epoch empties the cache
			epoch++
			run()
		}
		resolve()
		if allocations := testing.AllocsPerRun(100, resolve); allocations != 0 {
			t.Errorf("%s: %v allocations for 30 points that are resolved", name, allocations)
		}
	}
}
