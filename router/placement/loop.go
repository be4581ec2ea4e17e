package placement

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Options configure a loop.
type Options struct {
	Store  shardmap.Store
	Name   string // of this router, for the election
	Limits shardmap.Limits
	Log    *slog.Logger     // nil: no log
	Clock  func() time.Time // nil: time.Now
	// Ticks are the times to plan again though nothing has changed: dead nodes are replaced
	// when time has passed. nil: every TickInterval.
	Ticks <-chan time.Time
	// Pause is the least time between two looks at the store of which the first led to a
	// write: what has moved meanwhile makes room for others in one write. 0: none.
	Pause time.Duration
	// Leaders returns who leads each shard, as far as it is known, and Transfer asks a
	// leader to hand over. nil: leaders are left where they are.
	Leaders  func() shardmap.Leaders
	Transfer func(context.Context, shardmap.Transfer) error
	// Copies returns what all nodes that answer have, for shards that have lost their
	// majority. nil: they wait for a person.
	Copies func(context.Context) []shardmap.NodeCopies
}

// Bounds and intervals.
const (
	TickInterval    = 2 * time.Second
	WritePause      = 100 * time.Millisecond // for Options.Pause
	campaignDelay   = time.Second            // after a campaign that failed
	transfersMax    = 4                      // at a tick
	transferTimeout = 5 * time.Second
	writesMax       = 1024 // without a look at the store in between
	stepsMax        = 64   // in one write
)

// Loop plans and acts when it is elected.
type Loop struct {
	options Options
	start   time.Time
	tracker shardmap.Tracker  // of the goroutine that runs Run
	lost    map[uint16]uint64 // of the same: versions of rows that were lost at the last tick, by shard
	mu      struct {
		sync.Mutex
		status Status
	}
}

// Status is the state of a loop and of placement.
type Status struct {
	Elected   bool
	Summary   shardmap.Summary
	Err       error     // of the store's last view, or of the last step
	LastPlan  time.Time // zero: none yet
	Steps     map[shardmap.Reason]uint64
	Conflicts uint64 // steps given up because the map had changed
	Failures  uint64 // steps that the store did not take
	Transfers uint64 // of leaders, asked for
	Recovered uint64 // shards that went on from one copy
	// WaitingForCopies counts shards without a majority that wait for nodes to come back,
	// or for a person.
	WaitingForCopies int
	StepsAhead       int   // steps that the last plan found
	Waiting          error // why nothing is planned on the store's map; nil: nothing speaks against it
}

// New makes a loop. A cluster to be created gets a random id unless Limits has one.
func New(o Options) (*Loop, error) {
	if o.Store == nil || o.Name == "" {
		return nil, errors.New("placement needs a store and a name")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if c := &o.Limits.Create; c.Cluster != "" {
		if err := c.Settings.Validate(); err != nil { // else nothing would ever be planned
			return nil, fmt.Errorf("the cluster cannot be created: %w", err)
		}
	}
	if c := &o.Limits.Create; c.Cluster != "" && c.ID == "" {
		// A new cluster always has a shard key: only those of earlier versions have none.
		for _, drawn := range []*string{&c.ID, &c.Settings.ShardKey} {
			random := make([]byte, shardmap.IncarnationBytes/2)
			if _, err := rand.Read(random); err != nil {
				return nil, fmt.Errorf("make a cluster's id and shard key: %w", err)
			}
			*drawn = hex.EncodeToString(random)
		}
	}
	l := &Loop{options: o, start: o.Clock()}
	l.mu.status.Steps = map[shardmap.Reason]uint64{}
	return l, nil
}

// Run plans until ctx ends. It watches from the start, so that it knows since when
// nodes are dead by the time it is elected.
func (l *Loop) Run(ctx context.Context) {
	ticks := l.options.Ticks
	if ticks == nil {
		ticker := time.NewTicker(TickInterval)
		defer ticker.Stop()
		ticks = ticker.C
	}
	elections := make(chan bool)
	var campaigning sync.WaitGroup
	defer campaigning.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	campaigning.Go(func() { l.campaign(ctx, elections) })
	views := l.options.Store.Watch(ctx)
	var view shardmap.View
	for {
		ticked := false
		select {
		case <-ctx.Done():
			return
		case next, open := <-views:
			if !open {
				return
			}
			if !older(next, view) {
				view = next
			}
		case elected := <-elections:
			l.setElected(elected)
		case <-ticks:
			ticked = true
		}
		before := view.Map
		if view = l.act(ctx, view, ticked); view.Map != before && l.options.Pause > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(l.options.Pause):
			}
		}
	}
}

// older reports whether a view is from before a step that this loop has made since.
func older(next, is shardmap.View) bool {
	return next.Err == nil && next.Map != nil && is.Map != nil && next.Map.ID == is.Map.ID && next.Map.Epoch < is.Map.Epoch
}

// campaign reports when this loop is elected, and when not any more.
func (l *Loop) campaign(ctx context.Context, elections chan<- bool) {
	tell := func(elected bool) {
		select {
		case elections <- elected:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		leadership, err := l.options.Store.Campaign(ctx, shardmap.ElectionPlacement, l.options.Name)
		if err != nil {
			if errors.Is(err, shardmap.ErrClosed) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(campaignDelay):
			}
			continue
		}
		tell(true)
		select {
		case <-leadership.Lost():
		case <-ctx.Done():
			resign(leadership)
		}
		tell(false)
	}
}

// resign ends the loop's lease, so that another loop acts at once; without it the lease ends by itself.
func resign(leadership shardmap.Leadership) {
	ctx, cancel := context.WithTimeout(context.Background(), campaignDelay)
	defer cancel()
	_ = leadership.Resign(ctx)
}

// act makes the steps that can be made now. It returns the view with what it changed.
func (l *Loop) act(ctx context.Context, view shardmap.View, ticked bool) shardmap.View {
	now := l.options.Clock()
	state := l.tracker.Observe(view, l.elapsedMs(now))
	waiting := view.Overtaken()
	before := l.Status().Waiting
	l.note(func(s *Status) { s.Summary, s.Err, s.Waiting = shardmap.Summarize(state), view.Err, waiting })
	l.logWaiting(before, waiting)
	if view.Err != nil || view.Nodes == nil || waiting != nil || !l.Status().Elected {
		return view
	}
	for range writesMax {
		steps := l.plan(state, now)
		if len(steps) == 0 {
			break
		}
		if err := l.make(ctx, &state, steps); err != nil {
			l.failed(ctx, steps[0], err)
			break
		}
		view.Map, view.Incarnations = state.Map, state.Incarnations
	}
	if ticked {
		view = l.recover(ctx, view, state)
		l.transferLeaders(ctx, state)
	}
	return view
}

// elapsedMs is the time as planning counts it: on from the start, by the monotonic clock.
// A board without a clock of its own sets its time years ahead soon after it has started;
// nodes that are starting, too, have not been dead for years then.
func (l *Loop) elapsedMs(now time.Time) int64 {
	return l.start.UnixMilli() + now.Sub(l.start).Milliseconds()
}

// logWaiting logs once that nothing is planned any more, and once that it is again.
func (l *Loop) logWaiting(before, is error) {
	switch {
	case before == nil && is != nil:
		l.options.Log.Error("placement waits", "error", is)
	case before != nil && is == nil:
		l.options.Log.Info("placement goes on")
	}
}

// plan returns the steps that are made with the next write: those for rows, each planned
// on what the ones before it change, or one of another kind. Each write of the map costs
// a sync at the store and at every node, so moves that may begin together do.
func (l *Loop) plan(state shardmap.State, now time.Time) (steps []shardmap.Step) {
	for len(steps) < stepsMax {
		ahead := shardmap.Plan(state, l.options.Limits)
		l.note(func(s *Status) {
			s.LastPlan, s.StepsAhead, s.Summary = now, len(ahead), shardmap.Summarize(state)
		})
		if len(ahead) == 0 || len(steps) > 0 && ahead[0].Kind != shardmap.StepIntend {
			break
		}
		steps = append(steps, ahead[0])
		next, err := ahead[0].Apply(state.Map)
		if ahead[0].Kind != shardmap.StepIntend || err != nil {
			break // make tells of the error
		}
		state.Map = &next
	}
	return steps
}

// make makes steps with one write, and changes the state as they did.
func (l *Loop) make(ctx context.Context, state *shardmap.State, steps []shardmap.Step) error {
	if s := steps[0]; s.Kind == shardmap.StepRetire {
		if err := l.options.Store.Retire(ctx, s.Node, s.Incarnation); err != nil {
			return err
		}
		state.Incarnations = withRetired(state.Incarnations, s.Node, s.Incarnation)
	} else {
		epoch, next := uint64(0), state.Map
		if state.Map != nil {
			epoch = state.Map.Epoch
		}
		for _, s := range steps {
			changed, err := s.Apply(next)
			if err != nil {
				return err
			}
			next = &changed
		}
		if err := l.options.Store.CompareAndSwap(ctx, epoch, *next); err != nil {
			return err
		}
		state.Map = next
	}
	for _, s := range steps {
		l.note(func(status *Status) { status.Steps[s.Reason]++ })
		l.options.Log.Info("placement step", "kind", s.Kind, "reason", s.Reason, "shard", s.Shard, "members", nodesOf(s.Intended), "node", s.Node)
	}
	return nil
}

func (l *Loop) failed(ctx context.Context, s shardmap.Step, err error) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, shardmap.ErrConflict) {
		l.note(func(status *Status) { status.Conflicts++ })
		return // the watch brings what was changed
	}
	l.note(func(status *Status) { status.Failures, status.Err = status.Failures+1, err })
	l.options.Log.Warn("placement step failed", "kind", s.Kind, "reason", s.Reason, "shard", s.Shard, "error", err)
}

// transferLeaders spreads leaders.
func (l *Loop) transferLeaders(ctx context.Context, state shardmap.State) {
	if l.options.Leaders == nil || l.options.Transfer == nil {
		return
	}
	for _, t := range shardmap.LeaderTransfers(state, l.options.Leaders(), transfersMax) {
		bounded, cancel := context.WithTimeout(ctx, transferTimeout)
		err := l.options.Transfer(bounded, t)
		cancel()
		if err != nil {
			l.options.Log.Info("leader not transferred", "shard", t.Shard, "from", t.From, "to", t.To, "error", err)
			return
		}
		l.note(func(s *Status) { s.Transfers++ })
	}
}

func withRetired(all map[string][]shardmap.Incarnation, node, incarnation string) map[string][]shardmap.Incarnation {
	next := make(map[string][]shardmap.Incarnation, len(all))
	for id, known := range all {
		next[id] = known
	}
	next[node] = append([]shardmap.Incarnation(nil), next[node]...)
	for i := range next[node] {
		if next[node][i].ID == incarnation {
			next[node][i].Retired = true
		}
	}
	return next
}

func nodesOf(members []shardmap.Member) []string {
	var nodes []string
	for _, m := range members {
		nodes = append(nodes, m.Node+" "+m.Role.String())
	}
	return nodes
}

func (l *Loop) setElected(elected bool) {
	l.note(func(s *Status) { s.Elected = elected })
	l.options.Log.Info("placement election", "name", l.options.Name, "elected", elected)
}

func (l *Loop) note(change func(*Status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.mu.status)
}

// Status returns a copy of the loop's state.
func (l *Loop) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := l.mu.status
	status.Steps = make(map[shardmap.Reason]uint64, len(l.mu.status.Steps))
	for reason, count := range l.mu.status.Steps {
		status.Steps[reason] = count
	}
	return status
}
