package years

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/node"
)

// Life is a node's, from its first day on.
type Life struct {
	Config  Config
	Options node.Options           // of each of its processes; disk, clock and rules are the life's own
	Nodes   int                    // that are a cluster; 1: there is none
	NewDisk func(node string) Disk // returns the empty disk of a node
	Logger  *slog.Logger
	// BackupFolder takes the weekly backups.
	BackupFolder string

	Clock   *Clock
	Oracle  *Oracle
	Figures Figures

	rng      *rand.Rand
	load     *Load
	machines []*machine
	cluster  *cluster // nil: there is one node
	store    Store
	rules    func(nowMs int64) *tenancy.Rules
	batches  uint64
	retry    []*Batch // refused, and to be sent again
	full     bool
	reader   *slowReader
	start    start
	counts   Counts
	day      int
}

// Counts are what has happened.
type Counts struct {
	Batches, Refused, Kills, PowerCuts, CleanStops, Deletes, DeletesRefused, FullHours, SlowReads, Doubts, Backups, Restores int

	BackupBytes, BackupWritten int64 // of all backups, and what was written for them
}

// start is what the last start took.
type start struct {
	took  time.Duration
	bytes int64 // of log that it replayed
}

// digestRest is between two comparisons of all copies of a cluster.
const digestRest = 50 * time.Millisecond

// replayMax bounds what a start replays, in times of what a checkpoint comes with: two epochs, and what comes while a
// full disk keeps checkpoints waiting.
const replayMax = 3

// retryMax bounds what is sent again: older batches stay in doubt.
const retryMax = 2000

// Play plays all days. Each is told of when it is over; nil: it is not.
func (y *Life) Play(told func(day int)) (err error) {
	y.rng = rand.New(rand.NewPCG(y.Config.Seed, 1))
	y.Clock, y.Oracle, y.Figures = NewClock(beginMs), NewOracle(), newFigures()
	y.load = newLoad(&y.Config, y.rng)
	if y.rules, err = y.Config.rules(); err != nil {
		return err
	}
	if err := y.begin(); err != nil {
		return errors.Join(err, y.closeAll())
	}
	for y.day = range y.Config.Days {
		if err := y.playDay(); err != nil {
			return errors.Join(fmt.Errorf("day %d, %s: %w", y.day, stamp(y.Clock.NowMs()), err), y.letGo(), y.closeAll())
		}
		if told != nil {
			told(y.day)
		}
	}
	return errors.Join(y.letGo(), y.closeAll())
}

// begin starts all processes for the first time.
func (y *Life) begin() error {
	for i := range y.Nodes {
		name := string(rune('a' + i))
		y.machines = append(y.machines, &machine{name: name, disk: y.NewDisk(name)})
	}
	if y.Nodes > 1 {
		y.cluster = newCluster(y.Clock, y.machines)
		y.store = y.cluster
	}
	for _, m := range y.machines {
		if err := y.open(m); err != nil {
			return err
		}
	}
	if y.cluster != nil {
		return y.cluster.create(y.Options.Shards)
	}
	return nil
}

func (y *Life) closeAll() error {
	var errs []error
	for _, m := range y.machines {
		if m.process != nil {
			errs = append(errs, m.node.Close())
		}
	}
	return errors.Join(errs...)
}

// machine returns the one that the day's events happen to.
func (y *Life) machine() *machine { return y.machines[y.day%len(y.machines)] }

// open starts a process.
func (y *Life) open(m *machine) error {
	o := y.Options
	o.FS, o.DataDir = m.disk.FS(), m.disk.Dir()
	life := &atomic.Bool{}
	life.Store(true)
	if y.cluster != nil {
		l := link{y.cluster, m.name, life}
		o.NodeID, o.Peers, o.Files, o.GroupClient, o.Copies, o.DigestInterval = m.name, l, l, l, l, digestRest
	}
	o.Clock, o.Ticker, o.Logger = y.Clock.Now, y.Clock.Ticker, y.Logger
	o.Retention, o.Rules = y.retention(), y.currentRules
	begin := time.Now()
	n, err := node.Open(o)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	r := n.Recovery()
	m.process, y.start = &process{n, life}, start{time.Since(begin), r.Bytes}
	if r.Bytes > replayMax*o.CheckpointBytes {
		return fmt.Errorf("%w: a start had to replay %d bytes, though checkpoints come with each %d", ErrWrong, r.Bytes, o.CheckpointBytes)
	}
	if y.cluster != nil {
		return y.cluster.join(m)
	}
	y.store = alone{n}
	return nil
}

// currentRules returns the rules of the present time.
func (y *Life) currentRules() *tenancy.Rules { return y.rules(y.Clock.NowMs()) }

// playDay plays one day, and compares all answers at its end.
func (y *Life) playDay() error {
	steps := int(dayMs / y.Config.Step.Milliseconds())
	plan := y.planDay(steps)
	for step := range steps {
		for _, event := range plan[step] {
			if err := event(); err != nil {
				return err
			}
		}
		if err := y.playStep(); err != nil {
			return err
		}
	}
	if err := y.recover(); err != nil {
		return err
	}
	return y.endDay()
}

// playStep writes what comes in a step while maintenance goes on.
func (y *Life) playStep() error {
	now := y.Clock.NowMs()
	var ticking sync.WaitGroup
	ticking.Go(y.Clock.Tick)
	err := errors.Join(y.sendAgain(), y.write(false, y.load.Pods(now), y.load.Devices(now), y.load.Scratch(now), y.load.Energy(now)))
	ticking.Wait()
	y.Clock.Advance(y.Config.Step)
	y.noteRetention()
	return err
}

// noteRetention records in the oracle how far back metrics are kept.
func (y *Life) noteRetention() {
	now := y.Clock.NowMs()
	for _, metric := range metrics {
		y.Oracle.Keeps(metric, y.Config.keepMs(metric, now), now)
	}
	y.Oracle.Thins(metricEnergy, y.Config.rawMs(now), now)
}

// noteCuts records in the oracle which cuts have been made: all that are due. Leaders make them, whose elections go by the real clock,
// so that of a cluster it is what was due a day ago.
func (y *Life) noteCuts() {
	due := y.Clock.NowMs()
	if y.cluster != nil {
		due -= dayMs
	}
	for _, metric := range metrics {
		y.Oracle.Cut(metric, y.Config.keepMs(metric, due), due)
	}
	y.Oracle.Thinned(metricEnergy, y.Config.rawMs(due), due)
}

// write writes batches at once. In doubt says that nobody hears the answers.
func (y *Life) write(inDoubt bool, all ...[]Sample) error {
	batches, errs := make([]*Batch, len(all)), make([]error, len(all))
	var writers sync.WaitGroup
	for i, samples := range all {
		if len(samples) == 0 {
			continue
		}
		y.batches++
		b := &Batch{Samples: samples}
		batches[i] = b
		b.encode(y.store, series.BatchID{Session: 1 + y.Config.Seed, Counter: y.batches})
		writers.Go(func() { errs[i] = b.send(y.store) })
	}
	writers.Wait()
	for i, b := range batches {
		if b == nil {
			continue
		}
		y.counts.Batches++
		if inDoubt {
			errs[i] = series.ErrReadOnly
		}
		if err := y.answered(b, errs[i], inDoubt); err != nil {
			return err
		}
	}
	return nil
}

// answered notes what became of a batch. It may be refused while the disk is full, and nobody knows
// of one that a process ended with.
func (y *Life) answered(b *Batch, err error, killed bool) error {
	switch {
	case err == nil:
		y.Oracle.Wrote(b.Samples, b.sent)
		return nil
	case !errors.Is(err, series.ErrReadOnly) || !y.full && !killed:
		return fmt.Errorf("a write was refused: %w", err)
	}
	y.counts.Refused++
	if !b.sent {
		y.Oracle.MayHaveWritten(b.Samples)
	}
	b.sent = true
	if len(y.retry) < retryMax {
		y.retry = append(y.retry, b)
	}
	return nil
}

// sendAgain sends what was refused, in its order, until the first that is refused again.
func (y *Life) sendAgain() error {
	waiting := y.retry
	y.retry = nil
	for i, b := range waiting {
		if err := y.answered(b, b.send(y.store), false); err != nil {
			return err
		}
		if len(y.retry) > 0 {
			y.retry = append(y.retry, waiting[i+1:]...)
			return nil
		}
	}
	return nil
}

// recover goes on until the node is well and all has been sent again.
func (y *Life) recover() error {
	if y.full {
		return nil
	}
	for deadline := time.Now().Add(bound); y.health() != nil || len(y.retry) > 0; {
		if time.Now().After(deadline) {
			return fmt.Errorf("the node does not recover: %w", y.health())
		}
		y.full = true // a refusal may be the last one's
		err := y.sendAgain()
		y.full = false
		if err != nil {
			return err
		}
		y.Clock.Advance(time.Second)
		y.Clock.Tick()
		time.Sleep(time.Millisecond)
	}
	return nil
}

// health reports why a node does not take writes, if so.
func (y *Life) health() error {
	var errs []error
	for _, m := range y.machines {
		errs = append(errs, m.node.Health())
	}
	return errors.Join(errs...)
}

// restart ends the process in one of three ways, the first two in the middle of writes, and starts another one. Of a cluster
// it is the process of one machine, and what is written meanwhile is acknowledged by the others.
func (y *Life) restart(end func(Disk)) error {
	m := y.machine()
	if err := y.letGo(); err != nil {
		return err
	}
	if end == nil {
		y.counts.CleanStops++
		if y.cluster != nil {
			y.cluster.leave(m)
		}
		if err := m.node.Close(); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
		return y.open(m)
	}
	now := y.Clock.NowMs()
	lost := y.load.Devices(now)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.life.Store(false)
		if y.cluster != nil {
			y.cluster.leave(m)
		}
		end(m.disk)
	}()
	err := y.write(y.cluster == nil, lost)
	<-ended
	_ = m.node.Close() // of a machine that has ended
	return errors.Join(err, y.open(m))
}

func (y *Life) kill() error {
	y.counts.Kills++
	return y.restart(Disk.Kill)
}

func (y *Life) powerCut() error {
	y.counts.PowerCuts++
	return y.restart(func(d Disk) { d.PowerCut(y.rng) })
}

func (y *Life) cleanStop() error { return y.restart(nil) }

// letGo ends a slow read, if there is one.
func (y *Life) letGo() error {
	r := y.reader
	if r == nil {
		return nil
	}
	y.reader = nil
	return r.end(y.Oracle)
}
