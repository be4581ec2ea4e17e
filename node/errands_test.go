package node

import (
	"testing"
	"time"
)

// TestErrands wants things for shards, more than there is room for.
func TestErrands(t *testing.T) {
	type errand struct {
		shard uint16
		what  string
	}
	var e errands[errand]
	e.init(2, func(e *errand) uint16 { return e.shard })
	for _, wanted := range []errand{{1, "first"}, {1, "again"}, {2, "second"}, {3, "no room"}} {
		e.want(wanted)
	}
	if got := <-e.wants; got != (errand{1, "first"}) || e.count() != 2 {
		t.Fatalf("%+v, %d under way", got, e.count())
	}
	e.want(errand{1, "while it is run"})
	e.want(errand{3, "now"})
	e.done(1)
	if e.count() != 2 || len(e.wants) != 2 {
		t.Fatalf("%d under way, %d wait", e.count(), len(e.wants))
	}
	for _, want := range []errand{{2, "second"}, {3, "now"}} {
		if got := <-e.wants; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	e.want(errand{1, "after it was done"})
	if got := <-e.wants; got.what != "after it was done" {
		t.Errorf("%+v", got)
	}
}

type fakeProgress struct{ done, total int64 }

func (p fakeProgress) Progress() (doneBytes, totalBytes, resumed int64) { return p.done, p.total, 0 }

func TestFetchProgress(t *testing.T) {
	var f fetcher
	f.init()
	start := time.Unix(1_700_000_000, 0)
	over := f.began(7, &fetching{from: "a", start: start, stream: fakeProgress{300, 900}})
	if got := f.progress(7, start.Add(2*time.Second)); got == nil || *got != (FetchProgress{"a", 300, 900, 150}) {
		t.Errorf("%+v", got)
	}
	if got := f.progress(7, start); got == nil || got.BytesPerSecond != 0 {
		t.Errorf("at the start: %+v", got)
	}
	if got := f.progress(6, start); got != nil {
		t.Errorf("another shard: %+v", got)
	}
	over()
	if got := f.progress(7, start); got != nil {
		t.Errorf("after its end: %+v", got)
	}
}
