package segment

import (
	"context"
	"sync"
	"testing"
)

// Many goroutines read one segment while it is merged and dropped.
func TestConcurrentReaders(t *testing.T) {
	mem, dir := memFS(t)
	want := walkModel(4, 20, 100, testPartition(SpanDay), 1000)
	meta := want.write(t, Options{FS: mem, Dir: dir, Partition: testPartition(SpanDay), BlockSamples: 16, Rollups: true}, 64)
	r := openSegment(t, mem, dir, &meta)
	var readers sync.WaitGroup
	errs := make(chan error, 9)
	for range 8 {
		if !r.Acquire() {
			t.Fatal("no reference")
		}
		readers.Go(func() {
			got, err := readModel(r)
			if err == nil && got.samples() != want.samples() {
				t.Error("samples are missing")
			}
			errs <- err
			errs <- r.Release()
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}()
	o := MergeOptions{Options: Options{FS: mem, Dir: dir, Partition: testPartition(SpanMonth), Level: 1}}
	if _, err := Merge(context.Background(), []*Reader{r}, o); err != nil {
		t.Fatal(err)
	}
	r.Drop()
	release(t, r)
	readers.Wait()
	close(errs)
	<-done
	if names, _ := mem.List(dir); len(names) != 1 {
		t.Fatalf("%v", names)
	}
}
