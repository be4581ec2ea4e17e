package storage

import (
	"errors"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

// makeRoom does what appends of pages would else have to wait for. Who will seal pages
// under the lock of a shard, for which readers wait, calls it before it takes the lock. What
// fails shows at the next append.
func (e *Engine) makeRoom() {
	e.pages.WriteFull()
	if !e.pages.Ending() || !e.rolling.TryLock() {
		return // who holds the lock rolls
	}
	defer e.rolling.Unlock()
	if e.pages.Ending() {
		if _, err := e.pages.Roll(); err == nil {
			e.pace.ended()
		}
	}
}

func (e *Engine) appendPage(shard uint16, id uint32, previous pagelog.Ref, payload []byte) (pagelog.Ref, error) {
	ref, err := e.pages.Append(shard, id, previous, payload)
	if !errors.Is(err, pagelog.ErrGenerationFull) {
		return ref, err
	}
	// All shards meet the end of a generation at once; one of them rolls.
	e.rolling.Lock()
	defer e.rolling.Unlock()
	ref, err = e.pages.Append(shard, id, previous, payload)
	if errors.Is(err, pagelog.ErrGenerationFull) {
		if _, err = e.pages.Roll(); err == nil {
			e.pace.ended()
			ref, err = e.pages.Append(shard, id, previous, payload)
		}
	}
	return ref, err
}
