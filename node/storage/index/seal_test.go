package index

import (
	"bytes"
	"fmt"
	"slices"
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
			last := ""
			for c := tag.cursor(""); c.next(); {
				fmt.Fprintf(&text, "value %s\n", c.value)
				posting(c.posting, p.size())
				last = string(c.value)
			}
			found, ok := tag.find(last)
			fmt.Fprintln(&text, ok, found.count)
			return true
		})
	}
	return text.String(), nil
}

// TestEachRottenByteIsFound changes every byte of a part in turn: whoever reads it is told, or reads the same.
func TestEachRottenByteIsFound(t *testing.T) {
	t.Parallel()
	fs, list := vfs.NewMemFS(), largeModel(2_400)
	x := openPersisting(t, fs, persisted(t, fs, list), noDamage(t))
	p, body := sealedCopy((*x.parts.parts.Load())[0])
	want, err := everythingOf(p)
	if err != nil || len(body) < 3*sealBlock {
		t.Fatal(len(body), err)
	}
	told := 0
	for at := range len(body) - partFooter {
		body[at] ^= 1 << (at % 8)
		got, err := everythingOf(p)
		if err == nil && got != want {
			t.Fatalf("byte %d of %d: another answer without a word", at, len(body))
		}
		if err != nil {
			told++
		}
		body[at] ^= 1 << (at % 8)
	}
	if told < len(body)*9/10 {
		t.Errorf("%d of %d bytes were missed", told, len(body))
	}
}

// TestEachRottenBlockOfPostingIsFound does the same with large postings, of which only what is asked for is read.
func TestEachRottenBlockOfPostingIsFound(t *testing.T) {
	t.Parallel()
	for _, gap := range []uint32{2, 3, 40} { // bits, bits, blocks
		var list []uint32
		for v := uint32(5); len(list) < 12_000; v += 1 + v%gap {
			list = append(list, v)
		}
		hi := list[len(list)-1] + 1
		body := appendText(nil, appendPosting(nil, list, -1))
		s := newSeal(body)
		ways := map[string]func(p posting) string{
			"append": func(p posting) string { return fmt.Sprint(p.appendTo(nil, 3)) },
			"or": func(p posting) string {
				set := make([]uint64, hi/64+1)
				p.orInto(set)
				return fmt.Sprint(set)
			},
			"find few": func(p posting) string {
				var f finder
				f.reset(p)
				var found []uint32
				for v := uint32(0); v < hi; v += 997 {
					if f.has(v) {
						found = append(found, v)
					}
				}
				return fmt.Sprint(found)
			},
			"first": func(p posting) string { return fmt.Sprint(p.first()) },
		}
		ask := func(way string) (answer string, err error) {
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
			for at := 0; at < len(body); at += 13 {
				body[at] ^= 1 << (at % 8)
				answer, err := ask(way)
				switch {
				case err != nil:
					told++
				case answer != want:
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
