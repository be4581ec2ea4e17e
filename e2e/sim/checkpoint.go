package sim

import (
	"context"

	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// epochStart is where the present epoch began.
type epochStart struct {
	position wal.Position
	applied  []uint64
	epoch    uint16
}

// retireGaps makes sure that a log with gaps is never replayed again.
func (p *process) retireGaps() error {
	if !p.engine.DoubtsIDs() {
		return nil
	}
	applied := p.engine.AppliedIndexes()
	position := p.machine.EndOf(applied)
	p.machine.Durable(applied, false)
	states, err := p.logStates()
	if err == nil {
		err = p.syncLog()
	}
	if err == nil {
		err = p.engine.Checkpoint(storage.Checkpoint{Position: uint64(min(position, states)), Applied: applied, SealAll: true})
	}
	p.epoch = epochStart{p.log.End(), applied, 0}
	p.engine.TrustIDs()
	return err
}

// logStates logs the states of all groups and returns their position. No round may be on its way.
func (p *process) logStates() (wal.Position, error) {
	var buffer wal.Buffer
	if err := p.machine.AppendStates(&buffer); err != nil || buffer.Records() == 0 {
		return p.log.End(), err
	}
	return p.append(&buffer)
}

// maintain makes a checkpoint, and now and then segments.
func (p *process) maintain() {
	if p.slowUntil > p.world.now {
		return
	}
	w := p.world
	p.task("checkpoint", 0, func() {
		err := p.makeCheckpoint(w.chance(4))
		if err == nil && (w.options.Forget || w.chance(3)) { // what waits in the page log is not forgotten
			err = p.engine.Flush()
		}
		if err == nil && w.chance(3) {
			_, err = p.engine.Compact(context.Background(), p.clockMs())
		}
		if err != nil {
			p.fail(0, "maintenance: %v", err)
		}
	})
}

// makeCheckpoint publishes the start of the present epoch and begins the next one; with end it
// publishes the next one's, and so all that is applied now.
func (p *process) makeCheckpoint(end bool) error {
	if end {
		if err := p.beginEpoch(); err != nil {
			return err
		}
	}
	c := p.epoch
	if c.epoch > 0 {
		if err := p.engine.Checkpoint(storage.Checkpoint{Position: uint64(c.position), Applied: c.applied, SealThrough: c.epoch - 1}); err != nil {
			return err
		}
		copy(p.disk.checkpoint, p.engine.AppliedIndexes())
		p.world.stats.Checkpoints++
		p.world.trace.hashed("checkpoint", p.node.id, int(c.position))
		if err := p.trim(c.position); err != nil {
			return err
		}
	}
	if end {
		return nil
	}
	return p.beginEpoch()
}

func (p *process) beginEpoch() error {
	face := loopFace{p}
	var next epochStart
	err := face.do(func() { next.position, next.applied, next.epoch = p.machine.BeginEpoch() })
	if err == nil && !p.world.is(EpochNotDrained) {
		err = face.drain()
	}
	if err == nil {
		p.epoch = next
	}
	return err
}

func (p *process) trim(checkpoint wal.Position) error {
	face, force := loopFace{p}, p.world.chance(4)
	if err := face.do(func() { p.machine.Durable(p.engine.DurableIndexes(), force) }); err != nil {
		return err
	}
	lowWater := checkpoint
	if err := face.do(func() { lowWater = min(lowWater, p.machine.LowWater()) }); err != nil {
		return err
	}
	if err := face.do(func() {}); err != nil {
		return err
	}
	if p.world.is(TrimToCheckpoint) {
		lowWater = checkpoint
	}
	if err := p.syncLog(); err != nil {
		return err
	}
	return p.log.TrimBefore(lowWater)
}
