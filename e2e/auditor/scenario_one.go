package auditor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// oneServerConfig has many clients, in all dialects, and series that come with time.
func oneServerConfig(s *Stage) Config {
	config := DefaultConfig()
	config.Writers, config.Series, config.SeriesMax, config.Aged, config.RowsMax = 8, 10, 90, 2, 12
	config.ServerEnds = s.scenario.Ends
	config.WriteEvery = 4 * time.Millisecond
	config.PutAddr = func(string) string { return s.one().PutAddr() }
	return config
}

// one is the standalone server.
func (s *Stage) one() *harness.Server { return s.Servers(harness.RoleStandalone)[0] }

// Bounds of lives.
const (
	// lifeMax is the longest time from a start to a kill.
	lifeMax = 600 * time.Millisecond
	// recoveryMax is somewhat more than a start takes.
	recoveryMax = 150 * time.Millisecond
	// metricLives is after how many lives clients begin another metric, which bounds how much a
	// check reads.
	metricLives = 50
)

// Retention only shrinks, from life to life and at most by a partition, so that
// something is cut all the time: what is before an earlier cut stays cut.
const (
	retentionFirst   = 210 * time.Hour
	retentionLast    = 8 * time.Hour
	retentionStepMax = 2 * time.Hour
	retentionMargin  = 10 * time.Minute // longer than a life
)

// lives is the play of killOne.
type lives struct {
	*Stage
	server *harness.Server
	points []string // failpoints of the binary

	begun, kills, stops int
	atRandom, starting  int            // kills at random, and while the server started
	reached             map[string]int // kills by failpoint
}

// killOne kills a server at random moments, at named failpoints and while it starts, and
// sometimes stops it cleanly. After each life all that clients have written is compared before
// they go on.
func killOne(ctx context.Context, s *Stage) error {
	output, err := exec.CommandContext(ctx, s.options.Binary, "failpoints").Output()
	if err != nil {
		return fmt.Errorf("%s failpoints: %w", s.options.Binary, err)
	}
	l := &lives{Stage: s, server: s.one(), points: strings.Fields(string(output)), reached: map[string]int{}}
	if err := l.endLife(ctx, ""); err != nil { // the one that the stage has begun
		return err
	}
	for l.kills < s.options.Kills {
		if err := l.live(ctx); err != nil {
			return fmt.Errorf("after %d kills: %w\n%s", l.kills, err, s.Describe())
		}
	}
	missed := slices.DeleteFunc(slices.Clone(l.points), func(name string) bool { return l.reached[name] > 0 })
	s.logf("%d kills (%d at random, %d while starting, %d of %d failpoints reached), %d clean stops; not reached: %v",
		l.kills, l.atRandom, l.starting, len(l.reached), len(l.points), l.stops, missed)
	if len(l.reached) == 0 && s.options.Kills >= 20 {
		return errors.New("no failpoint was reached")
	}
	return l.checkAll(ctx)
}

// live begins a life with what the one before has left, checks that, lets clients write, and
// ends the life.
func (l *lives) live(ctx context.Context) error {
	l.Audit.Hold()
	held := true
	release := func() {
		if held {
			l.Audit.Release()
			held = false
		}
	}
	defer release()
	point, err := l.begin(ctx, l.drawPoint())
	if err != nil {
		return err
	}
	if died, err := l.checkHeld(ctx, point, l.Audit.CheckHeld); err != nil || died {
		return err // the next life checks again
	}
	if l.begun%metricLives == 0 {
		l.Audit.Begin(fmt.Sprintf("audit_%d", l.begun/metricLives))
	}
	release()
	if err := l.endLife(ctx, point); err != nil || l.random.IntN(4) > 0 {
		return errors.Join(err, l.Audit.Err())
	}
	return errors.Join(l.killStarting(ctx), l.Audit.Err())
}

// drawPoint returns at which failpoint a life is to end, those not reached first; "": at none.
func (l *lives) drawPoint() string {
	if len(l.points) == 0 || l.random.IntN(10) < 3 {
		return ""
	}
	names := slices.Clone(l.points)
	l.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	slices.SortStableFunc(names, func(a, b string) int { return l.reached[a] - l.reached[b] })
	return names[l.random.IntN(min(len(names), 3))]
}

// begin begins a life and waits until it serves. One that a failpoint kills first is begun
// again without, so it returns the failpoint that the life has.
func (l *lives) begin(ctx context.Context, point string) (string, error) {
	step := min(retentionStepMax, (retentionFirst-retentionLast)/time.Duration(max(1, l.options.Kills)))
	retention := max(retentionLast, retentionFirst-time.Duration(l.begun)*step)
	cut := time.Now().Add(retentionMargin - retention)
	l.Audit.Cut(cut.UnixMilli(), cut.Add(retentionMargin).UnixMilli())
	l.begun++
	l.server.Flags, l.server.Env = []string{"--retention", fmt.Sprintf("%ds", int64(retention.Seconds()))}, nil
	if point != "" {
		l.server.Env = []string{fmt.Sprintf("TICKMESH_FAILPOINTS=%s=kill@%d", point, 1+l.random.IntN(3))}
	}
	err := l.start(ctx)
	if err != nil && point != "" && !l.server.Running() && l.server.Process().KilledBy(syscall.SIGKILL) {
		l.countPoint(point)
		point, l.server.Env = "", nil
		err = l.start(ctx)
	}
	return point, err
}

func (l *lives) start(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := l.server.Start(bounded); err != nil {
		return err
	}
	return l.WaitReady(bounded)
}

// checkHeld checks, and reports whether a failpoint has ended the life meanwhile.
func (l *lives) checkHeld(ctx context.Context, point string, check func(context.Context) error) (died bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, standstillMax)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-l.server.Process().Done():
			cancel()
		case <-stop:
		}
	}()
	err = check(bounded)
	if err == nil || errors.Is(err, ErrBroken) || errors.Is(err, ErrRefused) || point == "" || l.server.Running() {
		return false, err
	}
	l.countPoint(point)
	return true, l.ended()
}

// endLife waits for a failpoint or a random moment, and ends the life.
func (l *lives) endLife(ctx context.Context, point string) error {
	moment := lifeMax
	if point == "" {
		moment = time.Duration(l.random.Int64N(int64(lifeMax)))
	}
	select {
	case <-l.server.Process().Done():
		if point == "" {
			return errors.Join(errors.New("the server ended without being asked to"), l.ended())
		}
		l.countPoint(point)
		return l.ended()
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(moment):
	}
	if l.random.IntN(12) > 0 {
		l.atRandom++
		l.kills++
		l.server.Process().Kill()
		return l.ended()
	}
	l.stops++
	err := l.server.Process().Terminate(stopBound)
	if err != nil && point != "" && l.ended() == nil { // a failpoint on the way out
		l.countPoint(point)
		return nil
	}
	return err
}

// killStarting kills the server while it recovers, at a moment that is drawn evenly.
func (l *lives) killStarting(ctx context.Context) error {
	l.server.Env = nil
	if err := l.server.Launch(); err != nil {
		return err
	}
	select {
	case <-l.server.Process().Done():
	case <-ctx.Done():
	case <-time.After(time.Duration(l.random.Int64N(int64(recoveryMax)))):
	}
	l.starting++
	l.kills++
	l.server.Process().Kill()
	return l.ended()
}

// ended returns an error if it was not a kill that ended the life.
func (l *lives) ended() error {
	if process := l.server.Process(); !process.KilledBy(syscall.SIGKILL) {
		return fmt.Errorf("the server ended by itself: %w", process.Err())
	}
	return nil
}

func (l *lives) countPoint(point string) {
	l.kills++
	l.reached[point]++
}

// checkAll compares all that was ever written once more, after a kill and after a clean stop, and
// leaves the server running.
func (l *lives) checkAll(ctx context.Context) error {
	l.Audit.Hold()
	defer l.Audit.Release()
	for range 2 {
		if l.server.Running() {
			if err := l.server.Stop(stopBound); err != nil {
				return err
			}
		}
		if _, err := l.begin(ctx, ""); err != nil {
			return err
		}
		if _, err := l.checkHeld(ctx, "", l.Audit.CheckAll); err != nil {
			return fmt.Errorf("%w\n%s", err, l.Describe())
		}
	}
	return nil
}

// cutPowerOfServer cuts the power of a server again and again. What was answered was synced
// before.
func cutPowerOfServer(ctx context.Context, s *Stage) error {
	rounds := 10
	if s.options.Long {
		rounds = 100
	}
	for range rounds {
		if !wait(ctx, time.Duration(s.random.Int64N(int64(lifeMax)))) {
			return ctx.Err()
		}
		f := unpowered(s.one())
		s.logf("%s", f.name)
		if err := f.begin(ctx); err != nil {
			return err
		}
		if err := f.end(ctx); err != nil {
			return err
		}
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fillDiskOfServer leaves a server no room: it says so, answers queries all the same, and goes on
// by itself when there is room; so it does when its disk has stood.
func fillDiskOfServer(ctx context.Context, s *Stage) error {
	refused := func(ctx context.Context) error {
		before := s.Audit.Report().Refusals
		bounded, cancel := context.WithTimeout(ctx, standstillMax)
		defer cancel()
		for s.Audit.Report().Refusals == before {
			if err := s.Audit.Err(); err != nil {
				return err
			}
			if !wait(bounded, pollInterval) {
				return fmt.Errorf("%w: no write is refused on a full disk: %s", ErrStalled, s.Audit.tally.lastFailure())
			}
		}
		return s.check(ctx)
	}
	for range 3 {
		if err := s.duringUnserved(ctx, full(s.one()), refused); err != nil {
			return err
		}
	}
	return s.duringUnserved(ctx, frozen(s.one()), func(context.Context) error { return nil })
}
