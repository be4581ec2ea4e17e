package ingest

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestDeadline(t *testing.T) {
	parent, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	d := newDeadline(parent)
	for range 3 {
		d.start(time.Hour)
		if d.Err() != nil || !d.rest() {
			t.Fatal("a deadline that has not passed ended:", d.Err())
		}
	}
	d.start(time.Nanosecond)
	<-d.Done()
	if !errors.Is(d.Err(), context.DeadlineExceeded) || d.rest() {
		t.Errorf("after its time: %v", d.Err())
	}
	d.release()
	d = newDeadline(parent)
	d.start(time.Hour)
	cancel(errStopped)
	<-d.Done()
	if !errors.Is(d.Err(), errStopped) || d.rest() {
		t.Errorf("after its parent: %v", d.Err())
	}
}
