package transfer

import (
	"testing"
	"time"
)

// TestWorkQueue wants things for shards, more than there is room for.
func TestWorkQueue(t *testing.T) {
	type task struct {
		shard uint16
		what  string
	}
	var q workQueue[task]
	q.init(2, func(t *task) uint16 { return t.shard })
	for _, wanted := range []task{{1, "first"}, {1, "again"}, {2, "second"}, {3, "no room"}} {
		q.enqueue(wanted)
	}
	if got := <-q.tasks; got != (task{1, "first"}) || q.count() != 2 {
		t.Fatalf("%+v, %d under way", got, q.count())
	}
	q.enqueue(task{1, "while it is run"})
	q.enqueue(task{3, "now"})
	q.done(1)
	if q.count() != 2 || len(q.tasks) != 2 {
		t.Fatalf("%d under way, %d wait", q.count(), len(q.tasks))
	}
	for _, want := range []task{{2, "second"}, {3, "now"}} {
		if got := <-q.tasks; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	q.enqueue(task{1, "after it was done"})
	if got := <-q.tasks; got.what != "after it was done" {
		t.Errorf("%+v", got)
	}
}

type fakeProgress struct{ done, total int64 }

func (p fakeProgress) Progress() (doneBytes, totalBytes, resumed int64) { return p.done, p.total, 0 }

func TestFetchProgress(t *testing.T) {
	f := running{byShard: map[uint16]*fetching{}}
	start := time.Unix(1_700_000_000, 0)
	over := f.began(7, &fetching{from: "a", start: start, stream: fakeProgress{300, 900}})
	if got := f.progress(7, start.Add(2*time.Second)); got == nil || *got != (Progress{"a", 300, 900, 150}) {
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
