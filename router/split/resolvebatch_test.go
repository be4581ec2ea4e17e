package split

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// drawLargeBody makes a body beyond the bounds of a resolve batch: many lines, or lines
// of many fields, some of which come again and some of which have no legal key.
func drawLargeBody(t *rapid.T) string {
	shape := rapid.SampledFrom([]struct{ lines, fields int }{{600, 1}, {100, 7}, {3, 700}, {1, batchKeysMax + 100}}).Draw(t, "shape")
	devices := rapid.SampledFrom([]int{3, 1 << 30}).Draw(t, "devices")
	wrongEvery := rapid.SampledFrom([]int{2, 50, 1 << 30}).Draw(t, "wrong")
	fieldBytes := rapid.SampledFrom([]int{1, 150}).Draw(t, "bytes of a field")
	step := rapid.IntRange(1, 7).Draw(t, "step")
	var s strings.Builder
	for i := range shape.lines {
		fmt.Fprintf(&s, "m,d=%d", i*step%devices)
		for f := range shape.fields {
			s.WriteString(" ,"[min(f, 1):][:1])
			if n := i + f; n%wrongEvery == wrongEvery-1 {
				s.WriteString(strings.Repeat("x", 300)) // a key that is too long
			}
			fmt.Fprintf(&s, "f%0*d=%d", fieldBytes, f, i*31+f)
		}
		s.WriteString(" 17\n")
	}
	return s.String()
}

// TestLargeBatchesAgainstKeys compares frames of large batches, through a warm
// cache and through a cold one, with keys that were built one by one. The node
// knows some of the series.
func TestLargeBatchesAgainstKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := parse.Limits{KeyBytesMax: 250, LineBytesMax: 4 << 20, ErrorsMax: 1 << 20}
		s, err := New(Options{Shards: 5, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		n := newNode(5)
		known := rapid.IntRange(0, 3).Draw(t, "known")
		body := drawLargeBody(t)
		var b parse.Batch
		if _, err := parse.Lines(&b, []byte(body), parse.LineOptions{Limits: limits}); err != nil || len(b.Lines) == 0 {
			t.Fatal(err)
		}
		want, failed := expected(&b, "", limits)
		createSome(n, want, known)
		for round := range 2 {
			frame := s.Split(&b, nil, n, 1)
			if got := n.decode(t, frame); !sameSamples(got, want) {
				t.Fatalf("%d series in the frame, want %d", len(got), len(want))
			}
			if b.ErrorsTotal != (round+1)*failed || !slices.IsSortedFunc(b.Errors[round*failed:], func(x, y parse.LineError) int { return x.Number - y.Number }) {
				t.Fatalf("%d errors, want %d in the order of the lines", b.ErrorsTotal, failed)
			}
		}
	})
}

// createSome creates about part of 3 of the series.
func createSome(n *node, want map[string][]sample, part int) {
	keys := []string{}
	for key := range want {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if _, exists := n.refs[key]; !exists && hashText(1, []byte(key))%3 < uint64(part) {
			n.create(key)
		}
	}
}

// TestRepeatedLinesAreAskedForOnce sends lines that come again within a batch.
func TestRepeatedLinesAreAskedForOnce(t *testing.T) {
	s, err := New(Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(4)
	body := []byte(strings.Repeat("put m 17 1 d=a\nput m 18 2 d=b\nput m 19 3 d=a\n", 10))
	createAll(t, n, body[:30], puts)
	counting := &counter{node: n}
	var b parse.Batch
	if err := puts(&b, body); err != nil {
		t.Fatal(err)
	}
	frame := s.Split(&b, nil, counting, 1)
	want, _ := expected(&b, "", parse.Limits{})
	if got := n.decode(t, frame); !sameSamples(got, want) || frame.Points != 30 || counting.keys != 2 {
		t.Errorf("%d keys for the resolver: %v", counting.keys, got)
	}
}

// TestFullLineCacheIsKept sends more lines than the cache holds: what it holds goes on
// to be found, until too many lines were not.
func TestFullLineCacheIsKept(t *testing.T) {
	s, err := New(Options{Shards: benchShards})
	if err != nil {
		t.Fatal(err)
	}
	counting := &counterOfAny{}
	round := func(first, lines int) (asked int) {
		before := counting.keys
		for i := first; i < first+lines; i += 64 {
			var body strings.Builder
			for j := range 64 {
				fmt.Fprintf(&body, "put m 17 1 d=%d\n", i+j)
			}
			var b parse.Batch
			if err := puts(&b, []byte(body.String())); err != nil {
				t.Fatal(err)
			}
			s.Split(&b, nil, counting, 1)
		}
		return counting.keys - before
	}
	const lines, beyond = lineCacheLinesMax + 512, 512
	for i, want := range []int{lines, beyond, beyond} {
		if asked := round(0, lines); asked != want {
			t.Errorf("round %d: %d keys for the resolver, want %d", i, asked, want)
		}
	}
	round(1_000_000, lineCacheMissesMax) // others come instead
	round(2_000_000, 512)
	if asked := round(2_000_000, 512); asked != 0 {
		t.Errorf("%d keys for the resolver after the cache was renewed", asked)
	}
}

// counterOfAny finds every key.
type counterOfAny struct{ keys int }

func (c *counterOfAny) Resolve(_ uint32, keys []series.Key, refs []series.Ref) {
	c.keys += len(keys)
	for i, key := range keys {
		refs[i] = series.Ref{Shard: key.Shard(benchShards), ID: 1, Hint: 7}
	}
}
