package index

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// sealedCopy returns what is mapped of a part in a copy that a test may damage.
func sealedCopy(p *part) (sealed *part, body []byte) {
	body = bytes.Clone(p.seal.bytes)
	sealed = new(part)
	if err := sealed.parse("copy", body, p.lo, p.hi); err != nil {
		panic(err)
	}
	return sealed, body
}

// everythingOf reads all of a part, in all ways that queries do.
func everythingOf(p *part) (all string, err error) {
	defer recoverRotten(&err)
	var text bytes.Buffer
	posting := func(p posting, hi uint32) {
		list := p.appendTo(nil, 0)
		set := make([]uint64, hi/64+1)
		p.orInto(set)
		var f finder
		f.reset(p)
		var every []uint32
		for v := range hi {
			every = append(every, v)
		}
		found := f.filter(every, true)
		if !slices.Equal(found, list) || !slices.Equal(appendSet(nil, set), list) {
			fmt.Fprint(&text, "they differ: ", found, set)
		}
		f.reset(p)
		first, ok := p.first()
		fmt.Fprintln(&text, list, first, ok, f.has(list[len(list)-1]))
	}
	for i := range p.metrics {
		m := p.entry(i)
		fmt.Fprintf(&text, "%s %s %d\n", m.database, m.metric, p.search(string(m.database), string(m.metric)))
		posting(m.series, p.size())
		m.eachTag(func(tag tagEntry) bool {
			fmt.Fprintf(&text, "tag %s %d\n", tag.name, tag.values)
			posting(tag.series, p.size())
			for c := tag.cursor(""); c.next(); {
				fmt.Fprintf(&text, "value %s\n", c.value)
				posting(c.posting, p.size())
			}
			return true
		})
	}
	return text.String(), nil
}

// rotStep returns the distance between the bytes that a test changes: every few-th, or fewer where it
// would take too long.
func rotStep(step int) int {
	if exhaustive && !testing.Short() {
		return step
	}
	return step * 11 // coprime to the eight bits, of which each byte loses another
}

// TestEachRottenByteIsFound changes every byte of a part in turn: whoever reads it is told, or reads the same.
func TestEachRottenByteIsFound(t *testing.T) {
	t.Parallel()
	fs, list := vfs.NewMemFS(), largeModel(900)
	for i := 0; i < len(list); i += 100 { // values that are longer than a block
		list[i].tags["row"], list[i].cached = strings.Repeat("y", 3*sealBlock+i), nil
	}
	x := openPersisting(t, fs, persisted(t, fs, list), noDamage(t))
	p, body := sealedCopy((*x.parts.parts.Load())[0])
	if len(body) < 6*sealBlock {
		t.Fatal(len(body))
	}
	everything := func(p *part) ([]any, error) {
		all, err := everythingOf(p)
		return []any{all}, err
	}
	for way, ask := range map[string]func(p *part) ([]any, error){"all": everything, "search": searchesOf, "find": findsOf} {
		want, err := ask(p)
		if err != nil || len(want) == 0 {
			t.Fatal(way, err)
		}
		told, changed := 0, 0
		for at := 0; at < len(body)-partFooter; at += rotStep(1) {
			changed++
			body[at] ^= 1 << (at % 8)
			got, err := ask(p)
			if err == nil && !slices.Equal(got, want) {
				t.Fatalf("%s: byte %d of %d: another answer without a word", way, at, len(body))
			}
			if err != nil {
				told++
			}
			body[at] ^= 1 << (at % 8)
		}
		if told == 0 || way == "all" && told < changed*9/10 {
			t.Errorf("%s: %d of %d changed bytes were told of", way, told, changed)
		}
	}
}

// searchesOf looks for the metrics of largeModel, and for one that is not there.
func searchesOf(p *part) (found []any, err error) {
	defer recoverRotten(&err)
	for _, metric := range []string{"m", "n0", "n1", "n2", "o"} {
		found = append(found, p.search("", metric))
	}
	return found, nil
}

// findsOf looks for values of a tag, each alone.
func findsOf(p *part) (found []any, err error) {
	defer recoverRotten(&err)
	m := p.entry(p.search("", "m"))
	tag, ok := m.tag("device")
	found = append(found, ok, tag.values)
	for i := range 60 {
		one, ok := tag.find(fmt.Sprintf("d_%d", i))
		found = append(found, ok, fmt.Sprint(one.appendTo(nil, 0)))
	}
	return found, nil
}

// TestEachRottenBlockOfPostingIsFound does the same with large postings, of which only what is asked for is read.
func TestEachRottenBlockOfPostingIsFound(t *testing.T) {
	t.Parallel()
	for _, gap := range []uint32{2, 3, 40} { // bits, bits, blocks
		var list []uint32
		for v := uint32(5); len(list) < 40_000; v += 1 + v%gap {
			list = append(list, v)
		}
		hi := list[len(list)-1] + 1
		body := appendText(nil, appendPosting(nil, list, -1))
		s := newSeal(body)
		find := func(p posting, step uint32) (found []uint32) {
			var f finder
			f.reset(p)
			for v := uint32(0); v < hi; v += step {
				if f.has(v) {
					found = append(found, v)
				}
			}
			return found
		}
		ways := map[string]func(p posting) []uint32{
			"append": func(p posting) []uint32 { return p.appendTo(nil, 3) },
			"or": func(p posting) []uint32 {
				set := make([]uint64, hi/64+1)
				p.orInto(set)
				return appendSet(nil, set)
			},
			"find":     func(p posting) []uint32 { return find(p, 1) },
			"find few": func(p posting) []uint32 { return find(p, hi/7) },
			"first": func(p posting) []uint32 {
				first, _ := p.first()
				return []uint32{first}
			},
		}
		ask := func(way string) (answer []uint32, err error) {
			defer recoverRotten(&err)
			p, _ := (&checked{seal: s}).cutPosting(body)
			if p.seal == nil {
				panic("the posting is small")
			}
			return ways[way](p), nil
		}
		for way := range ways {
			want, err := ask(way)
			if err != nil {
				t.Fatal(err)
			}
			told := 0
			for at := 0; at < len(body); at += rotStep(211) {
				body[at] ^= 1 << (at % 8)
				answer, err := ask(way)
				switch {
				case err != nil:
					told++
				case !slices.Equal(answer, want):
					t.Fatalf("gap %d, %s: byte %d of %d gives another answer without a word", gap, way, at, len(body))
				}
				body[at] ^= 1 << (at % 8)
			}
			if told == 0 {
				t.Errorf("gap %d, %s: nothing was told", gap, way)
			}
		}
	}
}
