package index

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel runs work for 0 … count-1 on so many goroutines and returns one of the
// errors.
func parallel(workers, count int, work func(i int) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var (
		next  atomic.Int64
		first atomic.Pointer[error]
		group sync.WaitGroup
	)
	for range min(workers, count) {
		group.Go(func() {
			for first.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if err := work(i); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}
