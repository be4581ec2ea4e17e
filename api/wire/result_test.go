package wire

import (
	"errors"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

type answered struct {
	sequence uint64
	outcomes []PartOutcome
	err      error
	shards   []uint16
}

func drawAnswer(t *rapid.T) (a answered) {
	a.sequence = rapid.Uint64().Draw(t, "sequence")
	if rapid.IntRange(0, 3).Draw(t, "frame fails") == 0 {
		a.err = series.ErrReadOnly
		return a
	}
	plain := rapid.Bool().Draw(t, "plain")
	for i := range rapid.IntRange(1, 4).Draw(t, "parts") {
		o := PartOutcome{Copies: rapid.IntRange(1, 300).Draw(t, "copies")}
		switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
		case plain:
		case kind == 4:
			o.Level = series.LevelAll
		case kind == 5:
			o.Missing = 1
		case kind == 1:
			o = PartOutcome{Err: &NotLeaderError{Shard: uint16(i), Leader: "b"}}
		case kind == 2:
			o.Defined = []series.Defined{{Part: i, Definition: 3, ID: 9, Era: 2}}
		case kind == 3:
			o.Refused = []series.Refusal{{Part: i, Definition: 1, Err: series.ErrSeriesLimit}}
		}
		a.outcomes, a.shards = append(a.outcomes, o), append(a.shards, uint16(i))
	}
	return a
}

// What a response says is what was put into it, for its own reader and for protobuf's.
func TestResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []answered
		var response []byte
		for range rapid.IntRange(0, 4).Draw(t, "frames") {
			a := drawAnswer(t)
			var err error
			if response, err = AppendResult(response, a.sequence, a.outcomes, a.err); err != nil {
				t.Fatal(err)
			}
			list = append(list, a)
		}
		var m nodev1.WriteResponse
		if err := proto.Unmarshal(response, &m); err != nil || len(m.GetResults()) != len(list) {
			t.Fatalf("%v, %v", err, &m)
		}
		for i, a := range list {
			r, rest, ok, err := NextResult(response)
			if err != nil || !ok || r.Sequence != a.sequence || m.GetResults()[i].GetSequence() != a.sequence {
				t.Fatalf("%+v, %v", r, err)
			}
			response = rest
			checkAnswer(t, &r, &a)
		}
		if _, _, ok, err := NextResult(response); ok || err != nil {
			t.Fatal("more answers than frames")
		}
	})
}

func checkAnswer(t *rapid.T, r *Result, a *answered) {
	outcomes, err := r.Outcomes(a.shards)
	if !errors.Is(err, a.err) {
		t.Fatalf("%v became %v", a.err, err)
	}
	if r.Copies > 0 {
		least := 1 << 20
		for _, o := range a.outcomes {
			least = min(least, o.Copies)
			if o.Err != nil || o.Defined != nil || o.Refused != nil {
				t.Fatalf("%+v became %d copies", o, r.Copies)
			}
		}
		if least != r.Copies || a.err != nil {
			t.Fatalf("%+v became %d copies", a, r.Copies)
		}
		return
	}
	for i, o := range outcomes {
		want := a.outcomes[i]
		if want.Err != nil {
			if !reflect.DeepEqual(o, PartOutcome{Err: want.Err}) {
				t.Fatalf("%+v became %+v", want, o)
			}
			continue
		}
		if o.Err != nil || o.Copies != want.Copies || !reflect.DeepEqual(o.Defined, want.Defined) || len(o.Refused) != len(want.Refused) {
			t.Fatalf("%+v became %+v", want, o)
		}
		for j, refused := range o.Refused {
			if refused.Part != i || refused.Definition != want.Refused[j].Definition || !errors.Is(refused.Err, want.Refused[j].Err) {
				t.Fatalf("%+v became %+v", want.Refused[j], refused)
			}
		}
	}
	if len(outcomes) != len(a.outcomes) {
		t.Fatalf("%d outcomes became %d", len(a.outcomes), len(outcomes))
	}
}

// FuzzWriteResponse: whatever a node answers is read, or refused as ErrInvalid; what is
// read is what protobuf's own library reads.
func FuzzWriteResponse(f *testing.F) {
	for _, m := range []*nodev1.WriteResponse{
		{Results: []*nodev1.FrameResult{{Sequence: 4, Copies: 2}, {Sequence: 5, Results: []*nodev1.PartResult{{Copies: 1}}}}},
		{Results: []*nodev1.FrameResult{{Copies: 1 << 17}}},
		{Results: []*nodev1.FrameResult{{Copies: 1, Error: &tickmeshv1.Error{Kind: 1}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m nodev1.WriteResponse
		wrong := proto.Unmarshal(b, &m) != nil
		for n := 0; ; n++ {
			r, rest, ok, err := NextResult(b)
			if err != nil {
				if !errors.Is(err, ErrInvalid) {
					t.Fatalf("an error without a kind: %v", err)
				}
				return
			}
			if !ok {
				if !wrong && n != len(m.GetResults()) {
					t.Fatalf("%d answers of %d", n, len(m.GetResults()))
				}
				return
			}
			if !wrong && (r.Sequence != m.GetResults()[n].GetSequence() || r.Copies != int(m.GetResults()[n].GetCopies())) {
				t.Fatalf("%+v of %v", r, m.GetResults()[n])
			}
			_, _ = r.Outcomes([]uint16{1, 2})
			b = rest
		}
	})
}
