package entry_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

func FuzzParse(f *testing.F) {
	for _, e := range []entry.Entry{
		{Kind: entry.Samples, Shard: 3, Term: 1, Index: 1, Body: []byte("body")},
		{Kind: entry.Delete, Shard: 65535, Term: 1 << 63, Index: 1<<64 - 1, Gap: 1<<64 - 1},
		{Kind: entry.GroupState, Shard: 1, Body: []byte("state")},
		{Kind: entry.Empty, Shard: 1, Term: 7, Index: 300, Gap: 2},
	} {
		f.Add(append(e.AppendHeader(nil), e.Body...))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, record []byte) {
		e, err := entry.Parse(record)
		if err != nil {
			return
		}
		if (e.Index == 0) != (e.Kind == entry.GroupState) || e.Gap > e.Index || !bytes.HasSuffix(record, e.Body) {
			t.Fatalf("%+v of %x", e, record)
		}
		again, err := entry.Parse(append(e.AppendHeader(nil), e.Body...))
		if err != nil || !reflect.DeepEqual(normal(e), normal(again)) {
			t.Fatalf("%+v became %+v, %v", e, again, err)
		}
		if len(e.AppendHeader(nil)) > entry.HeaderBytesMax {
			t.Fatalf("a header of %d bytes", len(e.AppendHeader(nil)))
		}
	})
}

// normal makes no difference between an empty body and none.
func normal(e entry.Entry) entry.Entry {
	if len(e.Body) == 0 {
		e.Body = nil
	}
	return e
}

func FuzzReadBatches(f *testing.F) {
	body := entry.AppendTime(nil, -5)
	body = append(entry.AppendBatchHeader(body, series.BatchID{}, 3), 1, 2, 3)
	body = append(entry.AppendBatchHeader(body, series.BatchID{Session: 1 << 40, Counter: 300}, 1), 9)
	f.Add(body)
	f.Add([]byte{0, 0})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		b := entry.ReadBatches(body)
		again := entry.AppendTime(nil, b.TimeMs)
		type found struct {
			id    series.BatchID
			batch string
		}
		var all []found
		for b.Next() {
			if b.ID.Session == 0 && b.ID.Counter != 0 {
				t.Fatalf("a counter without a session: %v", b.ID)
			}
			again = append(entry.AppendBatchHeader(again, b.ID, len(b.Batch)), b.Batch...)
			all = append(all, found{b.ID, string(b.Batch)})
		}
		if b.Err() != nil {
			if b.Next() {
				t.Fatal("it goes on after an error")
			}
			return
		}
		// Numbers may be written in more bytes than they need.
		if len(again) > len(body) {
			t.Fatalf("%x became %x", body, again)
		}
		twice := entry.ReadBatches(again)
		for _, want := range all {
			if !twice.Next() || (found{twice.ID, string(twice.Batch)}) != want {
				t.Fatalf("%x became %x", body, again)
			}
		}
		if twice.Next() || twice.Err() != nil || twice.TimeMs != b.TimeMs {
			t.Fatalf("%x became %x: %v", body, again, twice.Err())
		}
	})
}

// TestBatchesOfCutBodies cuts a body everywhere: no batch is made up.
func TestBatchesOfCutBodies(t *testing.T) {
	body := entry.AppendTime(nil, 1_700_000_000_000)
	ends := map[int]int{len(body): 0} // where a batch ends: so many
	for i, id := range []series.BatchID{{}, {Session: 1, Counter: 1 << 50}, {Session: 1 << 63}} {
		body = append(entry.AppendBatchHeader(body, id, 5), "batch"...)
		ends[len(body)] = i + 1
	}
	for n := range len(body) + 1 {
		b := entry.ReadBatches(body[:n])
		count := 0
		for b.Next() {
			if count++; string(b.Batch) != "batch" {
				t.Fatalf("%d bytes: %q", n, b.Batch)
			}
		}
		if whole, ok := ends[n]; ok != (b.Err() == nil) || ok && count != whole {
			t.Fatalf("%d bytes: %d batches, %v", n, count, b.Err())
		}
	}
}

func FuzzDeleteBody(f *testing.F) {
	f.Add(entry.DeleteBody([]uint32{0, 1, 5, 1<<32 - 1}, -1<<63, 1<<63-1))
	f.Add(entry.DeleteBody(nil, 0, 0))
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, body []byte) {
		ids, fromMs, toMs, err := entry.ParseDeleteBody(body)
		if err != nil {
			return
		}
		if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) || len(ids) > len(body) {
			t.Fatalf("%v of %x", ids, body)
		}
		ids2, from2, to2, err := entry.ParseDeleteBody(entry.DeleteBody(ids, fromMs, toMs))
		if err != nil || !slices.Equal(ids, ids2) || from2 != fromMs || to2 != toMs {
			t.Fatalf("%x: %v, %v", body, ids2, err)
		}
	})
}

func FuzzRetentionBody(f *testing.F) {
	f.Add(entry.RetentionBody(-1 << 62))
	f.Add(bytes.Repeat([]byte{0xff}, 24))
	f.Fuzz(func(t *testing.T, b []byte) {
		cut, err := entry.ParseRetentionBody(b)
		if err != nil {
			return
		}
		if again, err := entry.ParseRetentionBody(entry.RetentionBody(cut)); err != nil || again != cut {
			t.Fatalf("the cut %d became %d: %v", cut, again, err)
		}
	})
}

// FuzzNamedDelete reads what may be the body of a delete with an id.
func FuzzNamedDelete(f *testing.F) {
	f.Add(entry.NamedDeleteBody(-5, series.BatchID{Session: 3, Counter: 4}, entry.DeleteBody([]uint32{1, 5}, -7, 9)))
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		timeMs, id, body, err := entry.ParseNamedDeleteBody(b)
		if err != nil {
			if !errors.Is(err, entry.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		againMs, again, rest, err := entry.ParseNamedDeleteBody(entry.NamedDeleteBody(timeMs, id, body))
		if err != nil || againMs != timeMs || again != id || !bytes.Equal(rest, body) {
			t.Fatalf("%d %v %x, %v became %d %v %x", timeMs, id, body, err, againMs, again, rest)
		}
	})
}

// FuzzForgetBody reads what may be the body of a forget.
func FuzzForgetBody(f *testing.F) {
	f.Add(entry.ForgetBody(7, []uint32{0, 1, 5, 1<<32 - 1}))
	f.Add(entry.ForgetBody(1<<64-1, nil))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, body []byte) {
		after, ids, err := entry.ParseForgetBody(body)
		if err != nil {
			if !errors.Is(err, entry.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) || len(ids) > len(body) {
			t.Fatalf("%v of %x", ids, body)
		}
		again, ids2, err := entry.ParseForgetBody(entry.ForgetBody(after, ids))
		if err != nil || again != after || !slices.Equal(ids, ids2) {
			t.Fatalf("%x: %d, %v, %v", body, again, ids2, err)
		}
		if parsed, err := entry.ParseIDs(entry.AppendIDs(nil, ids)); err != nil || !slices.Equal(parsed, ids) {
			t.Fatalf("%v became %v, %v", ids, parsed, err)
		}
	})
}

// FuzzExemplarsBody reads what may be the body of exemplars.
func FuzzExemplarsBody(f *testing.F) {
	key := series.AppendKey(nil, []byte("db"), []byte("m"), nil)
	f.Add(entry.ExemplarsBody(1<<20, []series.Exemplar{{Key: key, TimeMs: -5, Value: 2, Labels: []series.ExemplarLabel{{Name: "trace_id", Value: "x"}}}, {Key: key}}))
	f.Add(entry.ExemplarsBody(0, nil))
	f.Add([]byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		bound, exemplars, err := entry.ParseExemplarsBody(b)
		if err != nil {
			if !errors.Is(err, entry.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		again := entry.ExemplarsBody(bound, exemplars)
		bound2, exemplars2, err := entry.ParseExemplarsBody(again)
		if err != nil || bound2 != bound || len(exemplars2) != len(exemplars) || !bytes.Equal(entry.ExemplarsBody(bound2, exemplars2), again) {
			t.Fatalf("%x became %x: %v", b, again, err)
		}
	})
}
