package sim

import (
	"context"
	"errors"
	"io"

	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// loopFace is what the product's transfer of files sees of a process. Its methods are called
// in tasks, and wait for the world.
type loopFace struct{ p *process }

func (f loopFace) do(run func()) error {
	return f.p.waitFor(func(wake func()) {
		f.p.command(func() {
			run()
			wake()
		})
	})
}

// drain waits until the round of the present turn is written, and all before it is applied.
func (f loopFace) drain() error {
	for range 2 { // not before that round has ended
		if err := f.do(func() {}); err != nil {
			return err
		}
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
	for !s.prepared && ctx.Err() == nil && !f.p.world.is(SwapUnprepared) {
		if err := f.p.waitFor(func(wake func()) { s.wake = wake }); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil || f.p.world.is(SwapNotDrained) || f.p.world.is(SwapUnprepared) {
		return err
	}
	return f.drain()
}

// EndSwap implements transfer.Loop.
func (f loopFace) EndSwap(_ context.Context, shard uint16, failed error) (err error) {
	p := f.p
	if p.world.is(SwapFailureIgnored) {
		failed = nil
	}
	unheard := f.do(func() {
		delete(p.swaps, shard)
		var applied uint64
		if applied, err = p.machine.EndSwap(shard, failed); applied > 0 {
			p.applied[shard] = max(p.applied[shard], applied)
			p.disk.ahead[shard] = 0
			p.releaseReads(shard)
		}
	})
	return errors.Join(err, unheard)
}

// AwaitRemoved implements transfer.Loop.
func (f loopFace) AwaitRemoved(uint16) error {
	if f.p.world.is(DropUndrained) {
		return nil
	}
	if err := f.drain(); err != nil {
		return err
	}
	return f.p.syncLog()
}

// Dropped implements transfer.Loop.
func (f loopFace) Dropped(shard uint16) error {
	return f.do(func() {
		f.p.applied[shard], f.p.disk.ahead[shard] = 0, 0
		f.p.machine.Dropped(shard)
		f.p.releaseReads(shard)
	})
}

// Left implements transfer.Loop.
func (f loopFace) Left(q *commit.Question) error { return f.do(func() { f.p.machine.Left(q) }) }

// LogEnd implements transfer.Loop.
func (f loopFace) LogEnd() uint64 {
	if f.p.world.is(FilesBeforeLog) {
		return 0
	}
	return uint64(f.p.log.End())
}

// install fetches and installs the files of a shard.
func (p *process) install(need replica.SnapshotNeed) {
	_, err := p.transfer.Install(context.Background(), need)
	switch {
	case p.dead:
	case err == nil:
		p.world.stats.Installs++
		p.world.trace.note("install", p.node.id, int(need.Shard))
	case errors.Is(err, transfer.ErrConflict):
		p.world.trace.note("conflict", p.node.id, int(need.Shard))
		p.world.conflicts[p.node.id] = true
	default:
		p.world.trace.note("no install: "+err.Error(), p.node.id, int(need.Shard))
	}
}

// discardRetry is how long a drop that failed waits, µs.
const discardRetry = 100_000

// discard drops the data of a replica that has ended.
func (p *process) discard(shard uint16) {
	for p.transfer.Discard(shard) != nil {
		if p.sleep(discardRetry) != nil {
			return
		}
	}
	p.world.stats.Drops++
	p.world.trace.note("drop", p.node.id, int(shard))
	p.world.checkCopies(shard, "data was dropped")
	if p.world.is(RaftIDTwice) { // a start is what forgets, before the map has followed
		p.world.after(0, func() { p.run(func() { p.world.down(p.node, 0) }) })
	}
}

func (p *process) askMembers(q *commit.Question) {
	if p.transfer.HasLeft(context.Background(), q) {
		_ = loopFace{p}.Left(q)
	}
}

// answerMax is how long a node waits for another one's answer, µs.
const answerMax = 2_000_000

// call asks another node's process something between its rounds.
func (p *process) call(to string, ask func(q *process)) error {
	w, heard := p.world, false
	err := p.waitFor(func(wake func()) {
		w.after(answerMax, wake)
		w.network.deliver(p.node.id, to, func() {
			q := w.node(to).process
			if q == nil || q == p {
				return
			}
			q.run(func() {
				q.command(func() {
					ask(q)
					w.network.deliver(to, p.node.id, func() {
						heard = true
						wake()
					})
				})
			})
		})
	})
	if err == nil && !heard {
		err = errNoAnswer
	}
	return err
}

var errNoAnswer = errors.New("no answer in time")

// fileStreams reaches the files of other processes.
type fileStreams struct{ p *process }

// Fetch implements transfer.Files.
func (f fileStreams) Fetch(_ context.Context, from string, shard uint16) (io.ReadCloser, error) {
	w := f.p.world
	if err := f.p.call(from, func(*process) {}); err != nil {
		return nil, err
	}
	q := w.node(from).process
	if q == nil {
		return nil, errDead
	}
	opened, err := q.transfer.Open(shard)
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(opened.OpenAt(0))
	if err = errors.Join(err, opened.Close()); err != nil {
		return nil, err
	}
	if w.chance(8) {
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
	if err := s.p.sleep(s.p.world.between(10, 5000)); err != nil {
		return 0, err
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1024)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (s *stream) Close() error { return nil }

// groupClient asks other processes about their replicas.
type groupClient struct{ p *process }

// Group implements transfer.GroupClient.
func (i groupClient) Group(_ context.Context, name string, shard uint16) (view commit.GroupView, err error) {
	failed := i.p.call(name, func(q *process) {
		status, problem := q.machine.Host().Status(shard)
		if err = problem; err == nil && status.Syncing {
			err = errNoAnswer
		}
		c := &status.Configuration
		view = commit.GroupView{Era: status.Era, Index: c.Index, Members: c.Members}
		for _, list := range [4][]uint64{c.Voters, c.Outgoing, c.Learners, c.LearnersNext} {
			view.RaftIDs = append(view.RaftIDs, list...)
		}
	})
	return view, errors.Join(err, failed)
}
