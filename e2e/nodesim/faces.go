package nodesim

import (
	"context"
	"errors"
	"io"

	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
)

// loopFace is what the product's transfer of files sees of a process. Its methods are called
// in tasks, and wait for the world.
type loopFace struct{ p *process }

// waitFor waits until arrange's waker was called, or the process is dead.
func (p *process) waitFor(arrange func(wake func())) error {
	if p.dead {
		return errDead
	}
	at := p.waker
	p.waker++
	p.world.wait(func(wake func()) {
		p.wakers[at] = wake
		arrange(wake)
	})
	if delete(p.wakers, at); p.dead {
		return errDead
	}
	return nil
}

func (p *process) sleep(delay int64) {
	_ = p.waitFor(func(wake func()) { p.world.after(delay, wake) })
}

func (f loopFace) do(run func()) error {
	return f.p.waitFor(func(wake func()) { f.p.command(run, func(bool) { wake() }) })
}

// drain waits until the round of the present turn is written, and all before it is applied.
func (f loopFace) drain() error {
	if err := f.do(func() {}); err != nil {
		return err
	}
	if err := f.do(func() {}); err != nil { // not before that round has ended
		return err
	}
	return f.p.waitFor(func(wake func()) {
		f.p.items = append(f.p.items, item{mark: wake})
		f.p.applySoon()
	})
}

// SnapshotMeta implements transfer.Loop.
func (f loopFace) SnapshotMeta(shard uint16, index uint64) (meta replica.SnapshotMeta, err error) {
	failed := f.do(func() { meta, err = f.p.machine.Host().SnapshotMeta(shard, index) })
	return meta, errors.Join(err, failed)
}

// BeginSwap implements transfer.Loop.
func (f loopFace) BeginSwap(shard uint16, meta replica.SnapshotMeta, cancel func()) (witness bool, err error) {
	failed := f.do(func() {
		if witness, err = f.p.machine.BeginSwap(shard, meta); err == nil {
			f.p.swaps[shard] = &swapWait{cancel: cancel}
		}
	})
	return witness, errors.Join(err, failed)
}

// AwaitSwap implements transfer.Loop.
func (f loopFace) AwaitSwap(ctx context.Context, shard uint16) error {
	s := f.p.swaps[shard]
	for !s.prepared && ctx.Err() == nil {
		if err := f.p.waitFor(func(wake func()) { s.wake = wake }); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.drain()
}

// EndSwap implements transfer.Loop.
func (f loopFace) EndSwap(_ context.Context, shard uint16, failed error) (err error) {
	if f.p.world.is(SwapFailureIgnored) {
		failed = nil
	}
	unheard := f.do(func() {
		delete(f.p.swaps, shard)
		var applied uint64
		if applied, err = f.p.machine.EndSwap(shard, failed); applied > 0 {
			f.p.applied[shard] = max(f.p.applied[shard], applied)
		}
	})
	return errors.Join(err, unheard)
}

// AwaitRemoved implements transfer.Loop.
func (f loopFace) AwaitRemoved(shard uint16) error {
	if err := f.drain(); err != nil {
		return err
	}
	_, err := f.p.log.Sync()
	return err
}

// Dropped implements transfer.Loop.
func (f loopFace) Dropped(shard uint16) error {
	return f.do(func() {
		f.p.applied[shard] = 0
		f.p.machine.Dropped(shard)
	})
}

// Left implements transfer.Loop.
func (f loopFace) Left(q *commit.Question) error { return f.do(func() { f.p.machine.Left(q) }) }

// LogEnd implements transfer.Loop.
func (f loopFace) LogEnd() uint64 { return uint64(f.p.log.End()) }

// files reaches the files of other processes.
type files struct{ p *process }

// Fetch implements transfer.Files.
func (f files) Fetch(_ context.Context, from string, shard uint16) (io.ReadCloser, error) {
	w := f.p.world
	f.p.sleep(w.between(100, 2000))
	q := w.node(from).process
	if q == nil || f.p.dead || w.cut[[2]string{f.p.node.id, from}] {
		return nil, errDead
	}
	opened, err := q.transfer.Open(shard)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	all, err := io.ReadAll(opened.OpenAt(0))
	if err != nil {
		return nil, err
	}
	if w.chance(6) {
		all = all[:w.rng.IntN(len(all))] // the stream breaks off
	}
	return &stream{p: f.p, rest: all}, nil
}

// stream is files on their way, in parts.
type stream struct {
	p    *process
	rest []byte
}

// Read implements io.Reader.
func (s *stream) Read(b []byte) (int, error) {
	s.p.sleep(s.p.world.between(10, 5000))
	if s.p.dead {
		return 0, errDead
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 512)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (s *stream) Close() error { return nil }

// inquiry asks other processes about their replicas.
type inquiry struct{ p *process }

// Group implements transfer.Inquiry.
func (i inquiry) Group(_ context.Context, name string, shard uint16) (view commit.GroupView, err error) {
	w := i.p.world
	i.p.sleep(w.between(40, 600))
	q := w.node(name).process
	if q == nil || i.p.dead || w.cut[[2]string{i.p.node.id, name}] {
		return view, errDead
	}
	status, err := q.machine.Host().Status(shard)
	if err != nil || status.Syncing {
		return view, errors.Join(err, errDead)
	}
	c := &status.Configuration
	view = commit.GroupView{Era: status.Era, Index: c.Index, Members: c.Members}
	for _, list := range [4][]uint64{c.Voters, c.Outgoing, c.Learners, c.LearnersNext} {
		view.RaftIDs = append(view.RaftIDs, list...)
	}
	return view, nil
}
