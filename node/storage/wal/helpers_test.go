package wal

import (
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// rule is a fault rule that can be changed while files are open.
type rule struct {
	mu    sync.Mutex
	judge func(vfs.Op) error
}

func (r *rule) set(check func(vfs.Op) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge = check
}

func (r *rule) check(op vfs.Op) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.judge == nil {
		return nil
	}
	return r.judge(op)
}

// waitForNext waits until the background has made the next file.
func waitForNext(t testing.TB, l *Log) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		there := l.mu.next != nil
		l.mu.Unlock()
		if there {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no file was made ahead")
		}
	}
}
