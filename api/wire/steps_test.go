package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/exactsum"
	"github.com/tickmesh/tickmesh/api/scan"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

func someSteps(fold *scan.Fold) *scan.Steps {
	return &scan.Steps{FirstMs: -5000, LastMs: 60_000, StepMs: 1000, RangeMs: 300_000, Function: scan.StepRate, Fold: fold}
}

// TestSteps: requests come back as they were; of a later version is answered what is known, and
// nonsense is refused.
func TestSteps(t *testing.T) {
	for _, s := range []*scan.Steps{nil, someSteps(nil), someSteps(&scan.Fold{Kind: scan.FoldMax, Without: true, Names: []string{"a", scan.NameTag}})} {
		if got, err := ToSteps(FromSteps(s)); err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", s) && (got.Fold == nil || fmt.Sprint(*got.Fold) != fmt.Sprint(*s.Fold)) {
			t.Errorf("%+v came back as %+v, %v", s, got, err)
		}
	}
	for f := scan.StepNewest; f <= scan.StepLast; f++ { // as the names of the message's constants follow by hand
		s := someSteps(nil)
		s.Function = f
		if _, named := nodev1.StepFunction_name[int32(f)]; !named || !f.Known() {
			t.Errorf("function %d has no name", f)
		}
		if got, err := ToSteps(FromSteps(s)); err != nil || got.Function != f {
			t.Errorf("%+v, %v", got, err)
		}
		s.DeduplicateMs = 15_000
		if got, err := ToSteps(FromSteps(s)); err != nil || *got != *s {
			t.Errorf("%+v, %v", got, err)
		}
		if m := FromSteps(s); m.GetFunction() != 0 { // which an older version answers with samples
			t.Errorf("an older version takes it for %v of all samples", m.GetFunction())
		}
	}
	if len(nodev1.StepFunction_name) != int(scan.StepLast)+1 || len(nodev1.FoldKind_name) != int(scan.FoldSum)+1 {
		t.Error("messages and requests have other functions")
	}
	m := FromSteps(someSteps(&scan.Fold{Kind: scan.FoldMin}))
	m.Fold.Kind = 99
	if got, err := ToSteps(m); err != nil || got == nil || got.Fold != nil {
		t.Errorf("a fold of a later version: %+v, %v", got, err)
	}
	m.Function = 4711
	if got, err := ToSteps(m); err != nil || got != nil {
		t.Errorf("a function of a later version: %+v, %v", got, err)
	}
	m = FromSteps(someSteps(nil))
	m.DeduplicateMs = -1
	m.FunctionDeduplicated = nodev1.StepFunction_STEP_FUNCTION_RATE
	if _, err := ToSteps(m); !errors.Is(err, ErrInvalid) {
		t.Errorf("an interval of -1 ms: %v", err)
	}
	m = FromSteps(someSteps(nil))
	m.StepMs = 0
	if _, err := ToSteps(m); !errors.Is(err, ErrInvalid) {
		t.Errorf("steps of 0 ms: %v", err)
	}
}

// TestStepColumns: rows come back bit by bit, and those that were not asked for are refused.
func TestStepColumns(t *testing.T) {
	count := someSteps(&scan.Fold{Kind: scan.FoldCount})
	group := someSteps(&scan.Fold{Kind: scan.FoldGroup})
	sum := someSteps(&scan.Fold{Kind: scan.FoldSum})
	sums := sumsOf([]float64{1, 0x1p-60}, []float64{-1e300})
	two := &tickmeshv1.Columns{TimeDeltasMs: []int64{1, 1}, Counts: []int64{2, 1}}
	for _, c := range []struct {
		steps *scan.Steps
		chunk scan.Chunk
	}{
		{someSteps(nil), scan.Chunk{Times: []int64{-5000, -4000, 60_000}, Values: []float64{1, math.Float64frombits(scan.StaleBits), math.NaN()}}},
		{count, scan.Chunk{Times: []int64{1000, 2000}, Count: []int64{7, 3}, Series: 7}},
		{group, scan.Chunk{Times: []int64{60_000}, Series: 1}},
		{sum, scan.Chunk{Times: []int64{0, 1000}, Count: []int64{2, 1}, Sums: sums, Series: 2}},
		{group, scan.Chunk{Times: []int64{0}, Values: []float64{2}}}, // a series by itself
	} {
		var m tickmeshv1.Columns
		SetStepColumns(&m, &c.chunk, c.steps)
		var got scan.Chunk
		if err := SetStepChunk(&got, &m, c.steps, uint64(c.chunk.Series), AppendSums(nil, c.chunk.Sums)); err != nil || !sameRow(&got, &c.chunk) {
			t.Errorf("%+v came back as %+v, %v", c.chunk, got, err)
		}
	}
	for name, c := range map[string]struct {
		steps  *scan.Steps
		m      *tickmeshv1.Columns
		series uint64
		sums   []byte
	}{
		"no such step":             {someSteps(nil), &tickmeshv1.Columns{TimeDeltasMs: []int64{66}, Values: []float64{1}}, 0, nil},
		"a sum of steps":           {someSteps(nil), &tickmeshv1.Columns{TimeDeltasMs: []int64{40, 40}, Values: []float64{1, 2}}, 0, nil},
		"a negative step":          {someSteps(nil), &tickmeshv1.Columns{TimeDeltasMs: []int64{-1}, Values: []float64{1}}, 0, nil},
		"steps that do not grow":   {someSteps(nil), &tickmeshv1.Columns{TimeDeltasMs: []int64{1, 0}, Values: []float64{1, 2}}, 0, nil},
		"too few values":           {someSteps(nil), &tickmeshv1.Columns{TimeDeltasMs: []int64{1, 1}, Values: []float64{1}}, 0, nil},
		"a row without a fold":     {someSteps(nil), &tickmeshv1.Columns{TimeDeltasMs: []int64{1}, Values: []float64{1}}, 2, nil},
		"values instead of counts": {count, &tickmeshv1.Columns{TimeDeltasMs: []int64{1}, Values: []float64{1}}, 2, nil},
		"more than there are":      {count, &tickmeshv1.Columns{TimeDeltasMs: []int64{1}, Counts: []int64{3}}, 2, nil},
		"none":                     {count, &tickmeshv1.Columns{TimeDeltasMs: []int64{1}, Counts: []int64{0}}, 2, nil},
		"values of groups":         {group, &tickmeshv1.Columns{TimeDeltasMs: []int64{1}, Values: []float64{1}}, 2, nil},
		"too many series":          {group, &tickmeshv1.Columns{TimeDeltasMs: []int64{1}}, 1 << 63, nil},
		"more than a shard has":    {count, &tickmeshv1.Columns{TimeDeltasMs: []int64{1}, Counts: []int64{1 << 62}}, 1 << 62, nil},
		"fewer sums than counts":   {sum, two, 2, AppendSums(nil, sums[:1])},
		"more sums than counts":    {sum, two, 2, AppendSums(AppendSums(nil, sums), sums[:1])},
		"sums of counts":           {count, two, 2, AppendSums(nil, sums)},
		"sums of a series":         {sum, &tickmeshv1.Columns{TimeDeltasMs: []int64{1}, Values: []float64{1}}, 0, AppendSums(nil, sums[:1])},
	} {
		if err := SetStepChunk(new(scan.Chunk), c.m, c.steps, c.series, c.sums); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func sameRow(a, b *scan.Chunk) bool {
	return slices.Equal(a.Times, b.Times) && slices.Equal(bitsOf(a.Values), bitsOf(b.Values)) && slices.Equal(a.Count, b.Count) && a.Series == b.Series &&
		bytes.Equal(AppendSums(nil, a.Sums), AppendSums(nil, b.Sums))
}

// sumsOf returns the sum of each list.
func sumsOf(lists ...[]float64) []exactsum.Sum {
	sums := make([]exactsum.Sum, len(lists))
	for i, values := range lists {
		for _, v := range values {
			sums[i].Add(v)
		}
	}
	return sums
}

// FuzzStepMessages: what is taken for a request is within its bounds, and a row that is taken has
// steps of the request and comes back as it was.
func FuzzStepMessages(f *testing.F) {
	for _, m := range []proto.Message{
		FromSteps(someSteps(&scan.Fold{Kind: scan.FoldCount, Names: []string{"a"}})),
		&tickmeshv1.Columns{TimeDeltasMs: []int64{5, 1}, Values: []float64{1, math.NaN()}},
		&tickmeshv1.Columns{TimeDeltasMs: []int64{0, 60}, Counts: []int64{1, 2}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint64(0), []byte{})
		f.Add(b, uint64(2), AppendSums(nil, sumsOf([]float64{1, 0.1}, []float64{-1e300})))
	}
	f.Fuzz(func(t *testing.T, b []byte, series uint64, sums []byte) {
		var request nodev1.Steps
		if proto.Unmarshal(b, &request) == nil {
			s, err := ToSteps(&request)
			if err != nil && !errors.Is(err, ErrInvalid) {
				t.Fatalf("an error without a kind: %v", err)
			}
			if err == nil && s != nil && (s.Check() != nil || s.Count() < 1 || s.Count() > scan.StepsMax || s.At(s.LastMs) < s.LastMs) {
				t.Fatalf("%+v", s)
			}
		}
		var columns tickmeshv1.Columns
		if proto.Unmarshal(b, &columns) != nil {
			return
		}
		for _, s := range []*scan.Steps{someSteps(nil), someSteps(&scan.Fold{Kind: scan.FoldCount}), someSteps(&scan.Fold{Kind: scan.FoldGroup}), someSteps(&scan.Fold{Kind: scan.FoldMax}), someSteps(&scan.Fold{Kind: scan.FoldSum})} {
			var chunk, again scan.Chunk
			if err := SetStepChunk(&chunk, &columns, s, series, sums); err != nil {
				if !errors.Is(err, ErrInvalid) {
					t.Fatalf("an error without a kind: %v", err)
				}
				continue
			}
			for i, at := range chunk.Times {
				if at < s.FirstMs || at > s.LastMs || (at-s.FirstMs)%s.StepMs != 0 || i > 0 && at <= chunk.Times[i-1] {
					t.Fatalf("steps %v", chunk.Times)
				}
			}
			var m tickmeshv1.Columns
			SetStepColumns(&m, &chunk, s)
			if err := SetStepChunk(&again, &m, s, series, AppendSums(nil, chunk.Sums)); err != nil || !sameRow(&chunk, &again) {
				t.Fatalf("%+v came back as %+v, %v", chunk, again, err)
			}
		}
	})
}
