package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Config describes how hard to try.
type Config struct {
	Seed  uint64
	Kills int
	// Failpoints are names at which to kill; the rest of the kills are random.
	Failpoints []string
	Writers    int // connections
	Series     int // of each writer at the beginning of a chapter
	SeriesMax  int // of each writer
	AgedSeries int // of each writer, for retention; 0 leaves retention alone
	// WriteEvery is the pause between the requests of a writer.
	WriteEvery time.Duration
	// CycleMax is the longest time from a start to a kill.
	CycleMax time.Duration
	// ChapterCycles is the number of cycles after which a new metric begins.
	ChapterCycles int
	Log           io.Writer
}

// DefaultConfig is for continuous integration: short cycles, some minutes.
func DefaultConfig() Config {
	return Config{
		Seed: 1, Kills: 50, Writers: 8, Series: 10, SeriesMax: 100, AgedSeries: 2,
		WriteEvery: 4 * time.Millisecond, CycleMax: 600 * time.Millisecond, ChapterCycles: 50, Log: io.Discard,
	}
}

// Report counts what a run did.
type Report struct {
	Kills        int
	RandomKills  int
	StartKills   int            // while the server started
	Failpoints   map[string]int // kills by failpoint
	NotReached   []string       // failpoints at which nothing was killed
	CleanStops   int
	Acknowledged int64 // samples
	Unanswered   int64 // requests cut off by kills
	Deletes      int64 // acknowledged
	Overloads    int64
	Checked      int64 // samples read back and compared, over all checks
	Chapters     int
}

// String returns the report in a few lines.
func (r *Report) String() string {
	return fmt.Sprintf("%d kills (%d at random, %d while starting, %d failpoints reached), %d clean stops; "+
		"%d samples and %d deletes acknowledged, %d requests unanswered, %d overloads; %d samples compared in %d chapters; failpoints not reached: %v",
		r.Kills, r.RandomKills, r.StartKills, len(r.Failpoints), r.CleanStops, r.Acknowledged, r.Deletes, r.Unanswered,
		r.Overloads, r.Checked, r.Chapters, r.NotReached)
}

// Retention only shrinks, from life to life and at most by a partition, so that
// something is cut all the time: what is before an earlier cut stays cut.
const (
	retentionFirst   = 210 * time.Hour
	retentionLast    = 8 * time.Hour
	retentionStepMax = 2 * time.Hour
	// retentionMargin is longer than a life.
	retentionMargin = 10 * time.Minute
)

// retention is that of a life.
func retention(kills, life int) time.Duration {
	step := min(retentionStepMax, (retentionFirst-retentionLast)/time.Duration(kills))
	return max(retentionLast, retentionFirst-time.Duration(life)*step)
}

// tester is the state of a run.
type tester struct {
	config   Config
	server   Server
	client   *http.Client
	random   *rand.Rand
	report   *Report
	chapters []*chapter
	cycle    int // within the chapter
	lives    int // with writes, over all chapters
}

// Run kills the server until config.Kills is reached, and checks after each life.
// An error wraps ErrBroken when the server lost, changed or made up something.
func Run(ctx context.Context, config Config, server Server) (*Report, error) {
	t := &tester{
		config: config, server: server, random: rand.New(rand.NewPCG(config.Seed, 0)),
		// Connections die with the server's lives, so none is kept for long.
		client: &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: config.Writers}},
		report: &Report{Failpoints: map[string]int{}},
	}
	defer t.client.CloseIdleConnections()
	err := t.run(ctx)
	for _, name := range config.Failpoints {
		if t.report.Failpoints[name] == 0 {
			t.report.NotReached = append(t.report.NotReached, name)
		}
	}
	if err != nil {
		err = fmt.Errorf("seed %d, after %d kills: %w\n%s", config.Seed, t.report.Kills, err, server.Describe())
	}
	return t.report, err
}

func (t *tester) run(ctx context.Context) error {
	for t.report.Kills < t.config.Kills {
		if t.cycle == 0 {
			t.chapters = append(t.chapters, newChapter(&t.config, len(t.chapters), time.Now().UnixMilli()))
			t.report.Chapters++
		}
		if err := t.cycleOnce(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		t.cycle = (t.cycle + 1) % t.config.ChapterCycles
	}
	return t.checkAll(ctx)
}

// cycleOnce is one life with writes, a kill, and a life in which all is checked,
// which the next cycle's writes continue.
func (t *tester) cycleOnce(ctx context.Context) error {
	life, err := t.start(ctx, t.drawLife())
	if err != nil {
		return err
	}
	chapter := t.chapters[len(t.chapters)-1]
	if err := t.check(ctx, chapter); err != nil {
		return t.diedOr(err, life)
	}
	if err := t.writeAndKill(ctx, chapter, life); err != nil {
		return err
	}
	if t.random.IntN(4) > 0 {
		return nil
	}
	// Recovery itself is cut off, at a moment that is drawn evenly up to somewhat
	// more than it takes.
	delay := time.Duration(t.random.Int64N(int64(150 * time.Millisecond)))
	t.count(&t.report.StartKills)
	return t.server.StartAndKill(Life{Retention: life.Retention}, delay)
}

// diedOr accepts a failed check when a failpoint killed the server meanwhile; the
// next cycle checks again.
func (t *tester) diedOr(err error, life Life) error {
	if life.Failpoints == "" || errors.Is(err, ErrBroken) {
		return err
	}
	select {
	case <-t.server.Done():
		t.countFailpoint(life)
		return t.server.Kill()
	case <-time.After(5 * time.Second): // the connection breaks a little before the end is known
		return err
	}
}

func (t *tester) drawLife() Life {
	var life Life
	if t.config.AgedSeries > 0 {
		life.Retention = retention(t.config.Kills, t.lives)
		t.cut(life)
	}
	t.lives++
	if len(t.config.Failpoints) == 0 || t.random.IntN(10) < 3 {
		return life
	}
	// Those not yet reached come first.
	names := slices.Clone(t.config.Failpoints)
	t.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	slices.SortStableFunc(names, func(a, b string) int { return t.report.Failpoints[a] - t.report.Failpoints[b] })
	name := names[t.random.IntN(min(len(names), 3))]
	life.Failpoints = fmt.Sprintf("%s=kill@%d", name, 1+t.random.IntN(3))
	return life
}

// cut notes that samples may be gone once a life has the retention. The margin is
// for the time that the life goes on.
func (t *tester) cut(life Life) {
	for _, chapter := range t.chapters {
		chapter.cutMs = max(chapter.cutMs, time.Now().Add(retentionMargin-life.Retention).UnixMilli())
	}
}

// start begins a life; a failpoint may kill it while it starts, then it starts
// again without one. It gives the life that has begun.
func (t *tester) start(ctx context.Context, life Life) (Life, error) {
	err := t.server.Start(ctx, life)
	if errors.Is(err, ErrDied) {
		t.countFailpoint(life)
		life.Failpoints = ""
		err = t.server.Start(ctx, life)
	}
	return life, err
}

// writeAndKill writes from all connections until the server is killed or stopped.
func (t *tester) writeAndKill(ctx context.Context, c *chapter, life Life) error {
	writing, stop := context.WithCancel(ctx)
	defer stop()
	writers := make([]*writer, len(c.writers))
	failures := make([]error, len(c.writers))
	var group sync.WaitGroup
	for i, model := range c.writers {
		writers[i] = &writer{
			config: &t.config, chapter: c, model: model, server: t.server, client: t.client,
			random: rand.New(rand.NewPCG(t.config.Seed, t.random.Uint64())), keepFromMs: c.cutMs + retentionMargin.Milliseconds(),
		}
		group.Go(func() { failures[i] = writers[i].run(writing) })
	}
	err := t.end(life)
	stop()
	group.Wait()
	for _, writer := range writers {
		t.report.Acknowledged += writer.counts.acknowledged
		t.report.Unanswered += writer.counts.unanswered
		t.report.Deletes += writer.counts.deletes
		t.report.Overloads += writer.counts.overloads
	}
	t.client.CloseIdleConnections()
	return errors.Join(err, errors.Join(failures...))
}

// end waits for a failpoint or a random moment, and ends the life.
func (t *tester) end(life Life) error {
	moment := time.Duration(t.random.Int64N(int64(t.config.CycleMax)))
	if life.Failpoints != "" {
		moment = t.config.CycleMax
	}
	select {
	case <-t.server.Done():
		if life.Failpoints == "" {
			return errors.Join(errors.New("the server ended without being asked to"), t.server.Kill())
		}
		t.countFailpoint(life)
		return t.server.Kill() // says so if it was not SIGKILL that ended it
	case <-time.After(moment):
	}
	if t.random.IntN(12) == 0 {
		t.report.CleanStops++
		return t.stopOrDie(life)
	}
	t.count(&t.report.RandomKills)
	return t.server.Kill()
}

// stopOrDie stops cleanly, unless a failpoint on the way out kills the server.
func (t *tester) stopOrDie(life Life) error {
	err := t.server.Stop()
	if err == nil || life.Failpoints == "" {
		return err
	}
	if killErr := t.server.Kill(); killErr != nil {
		return errors.Join(err, killErr)
	}
	t.countFailpoint(life)
	return nil
}

func (t *tester) count(counter *int) {
	*counter++
	t.report.Kills++
	fmt.Fprintf(t.config.Log, "kill %d of %d\n", t.report.Kills, t.config.Kills)
}

func (t *tester) countFailpoint(life Life) {
	t.report.Kills++
	for _, name := range t.config.Failpoints {
		if len(life.Failpoints) > len(name) && life.Failpoints[:len(name)+1] == name+"=" {
			t.report.Failpoints[name]++
		}
	}
	fmt.Fprintf(t.config.Log, "kill %d of %d at %s\n", t.report.Kills, t.config.Kills, life.Failpoints)
}

func (t *tester) check(ctx context.Context, c *chapter) error {
	checked, err := checkChapter(ctx, t.client, t.server.HTTPAddr(), c)
	t.report.Checked += checked
	return err
}

// checkAll reads all chapters once more, after a kill and after a clean stop.
func (t *tester) checkAll(ctx context.Context) error {
	var life Life
	if t.config.AgedSeries > 0 {
		life.Retention = retention(t.config.Kills, t.lives)
		t.cut(life)
	}
	for range 2 {
		if err := t.server.Start(ctx, life); err != nil {
			return err
		}
		for _, chapter := range t.chapters {
			if err := t.check(ctx, chapter); err != nil {
				return err
			}
		}
		if err := t.server.Stop(); err != nil {
			return err
		}
		t.report.CleanStops++
	}
	return nil
}
