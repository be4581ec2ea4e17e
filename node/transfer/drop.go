package transfer

import (
	"context"
	"time"
)

const dropRetryDelay = time.Second

// dropRemoved drops the data of one removed replica after the other until ctx ends. What is
// left then is dropped by the next start.
func (s *Service) dropRemoved(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case shard := <-s.drops:
			for s.Discard(shard) != nil {
				select {
				case <-ctx.Done():
					return
				case <-time.After(dropRetryDelay):
				}
			}
		}
	}
}

// Discard drops the data of a shard whose replica was removed: not before it is durable that it
// was, as a start must not find the replica without its data.
func (s *Service) Discard(shard uint16) error {
	err := s.options.Loop.AwaitRemoved(shard)
	if err == nil {
		err = s.options.Engine.DropShard(shard, s.options.Loop.LogEnd())
	}
	if err != nil {
		s.options.Logger.Error("the data of a removed replica could not be dropped; trying again", "shard", shard, "error", err)
		return err
	}
	return s.options.Loop.Dropped(shard)
}
