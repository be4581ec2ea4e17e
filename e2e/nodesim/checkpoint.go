package nodesim

import (
	"context"

	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// checkpoint is where the present epoch began.
type checkpoint struct {
	position wal.Position
	applied  []uint64
	epoch    uint16
}

// trustIDs makes sure that a log with gaps is never replayed again.
func (p *process) trustIDs() error {
	if !p.engine.DoubtsIDs() {
		return nil
	}
	var buffer wal.Buffer
	applied := p.engine.AppliedIndexes()
	position := p.machine.EndOf(applied)
	p.machine.Durable(applied, false)
	err := p.machine.AppendStates(&buffer)
	if err == nil && buffer.Records() > 0 {
		var states wal.Position
		states, _, err = p.log.Write(&buffer)
		position = min(position, states)
	}
	if err == nil {
		_, err = p.log.Sync()
	}
	if err == nil {
		err = p.engine.Checkpoint(storage.Checkpoint{Position: uint64(position), Applied: applied, SealAll: true})
	}
	p.epoch = checkpoint{p.log.End(), applied, 0}
	p.engine.TrustIDs()
	return err
}

// maintain makes a checkpoint, and now and then segments.
func (p *process) maintain() {
	p.task("checkpoint", 0, func() {
		if err := p.checkpoint(); err != nil && !p.dead {
			p.world.fail("%s: checkpoint: %v", p.node.id, err)
		}
	})
	if p.world.chance(3) {
		if err := p.engine.Flush(); err != nil {
			p.world.fail("%s: flush: %v", p.node.id, err)
		}
	}
	if p.world.chance(3) {
		if _, err := p.engine.Compact(context.Background(), 1_700_000_000_000); err != nil {
			p.world.fail("%s: compact: %v", p.node.id, err)
		}
	}
}

// checkpoint publishes the start of the present epoch and begins the next one.
func (p *process) checkpoint() error {
	face, c := loopFace{p}, p.epoch
	if c.epoch > 0 {
		if err := p.engine.Checkpoint(storage.Checkpoint{Position: uint64(c.position), Applied: c.applied, SealThrough: c.epoch - 1}); err != nil {
			return err
		}
		p.world.stats.Checkpoints++
		if err := p.trim(c.position); err != nil {
			return err
		}
	}
	var next checkpoint
	err := face.do(func() { next.position, next.applied, next.epoch = p.machine.BeginEpoch() })
	if err == nil {
		err = face.drain()
	}
	p.epoch = next
	return err
}

func (p *process) trim(checkpoint wal.Position) error {
	face, force := loopFace{p}, p.world.chance(4)
	if err := face.do(func() { p.machine.Durable(p.engine.DurableIndexes(), force) }); err != nil {
		return err
	}
	floor := checkpoint
	if err := face.do(func() { floor = min(floor, p.machine.Floor()) }); err != nil {
		return err
	}
	if err := face.do(func() {}); err != nil {
		return err
	}
	if p.world.is(TrimToCheckpoint) {
		floor = checkpoint
	}
	if _, err := p.log.Sync(); err != nil {
		return err
	}
	return p.log.TrimBefore(floor)
}
