package years

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// planDay returns what happens before which step of the day. All weeks are alike, but for the hours.
func (y *Life) planDay(steps int) map[int][]func() error {
	plan := map[int][]func() error{}
	between := func(fromHour, toHour int, event func() error) {
		step := (fromHour*steps + y.rng.IntN((toHour-fromHour)*steps)) / 24
		plan[step] = append(plan[step], event)
	}
	between(14, 16, y.deleteSome)
	if y.day > 1 && y.day < weekDays-1 {
		between(3, 6, y.backfill) // so that the second week is like all others
	}
	switch y.day % weekDays {
	case 0:
		between(1, 9, y.kill)
		between(17, 23, y.kill)
	case 1:
		between(3, 6, y.backfill)
		between(17, 23, y.powerCut)
	case 2:
		between(4, 6, y.fillDisk)
		between(9, 11, y.emptyDisk)
		between(17, 23, y.powerCut)
	case 3:
		between(4, 12, y.cleanStop)
	case 4:
		between(10, 12, y.readSlowly)
	case 5:
		between(10, 12, y.letGo)
		between(17, 23, y.powerCut)
	case 6:
		between(9, 11, y.dropScratch)
		between(17, 23, y.kill)
	}
	return plan
}

func (y *Life) backfill() error {
	for _, batch := range y.load.Backfill(y.Clock.NowMs()) {
		if err := y.write(false, batch); err != nil {
			return err
		}
	}
	return nil
}

// fillDisk takes all room, whatever hour the neighbour chose.
func (y *Life) fillDisk() error {
	y.full = true
	y.machine().disk.Fill(true)
	return nil
}

// emptyDisk reads while there is no room, and gives it back: then all goes on by itself.
func (y *Life) emptyDisk() error {
	if err := y.Oracle.checkSamples(y.store, false); err != nil {
		return fmt.Errorf("while the disk is full: %w", err)
	}
	y.counts.FullHours += 5
	y.full = false
	for _, m := range y.machines {
		m.disk.Fill(false)
	}
	return y.recover()
}

func (y *Life) readSlowly() error {
	y.counts.SlowReads++
	y.reader = y.Oracle.beginSlowRead(y.store, y.Clock.NowMs())
	return nil
}

// deleteSome deletes ranges of devices and of the history, and whole pods. While writes are in doubt that are sent
// again, nobody could tell what came first.
func (y *Life) deleteSome() error {
	if len(y.retry) > 0 {
		return nil
	}
	now := y.Clock.NowMs()
	for range 3 {
		from := now - y.rng.Int64N(3*dayMs)
		if err := y.delete(y.load.devices[y.rng.IntN(len(y.load.devices))], from, from+y.rng.Int64N(5*hourMs)); err != nil {
			return err
		}
		from = now - y.rng.Int64N(int64(y.Config.HistoryDays)*dayMs)
		if err := y.delete(y.load.history[y.rng.IntN(len(y.load.history))], from, from+y.rng.Int64N(2*dayMs)); err != nil {
			return err
		}
	}
	var pods []string
	for k, l := range y.Oracle.Lines {
		if l.Metric == metricPod {
			pods = append(pods, k)
		}
	}
	slices.Sort(pods)
	for range min(3, len(pods)) {
		if err := y.delete(series.Key(pods[y.rng.IntN(len(pods))]), scan.TimeMsMin, scan.TimeMsMax); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes a range of one series.
func (y *Life) delete(key series.Key, fromMs, toMs int64) error {
	_, metric, tags, err := key.Parts(nil)
	if err != nil {
		return err
	}
	selector := of(string(metric))
	for _, tag := range tags {
		selector.Matchers = append(selector.Matchers, scan.Matcher{Name: string(tag.Name), Kind: scan.MatchEqual, Values: []string{string(tag.Value)}})
	}
	return y.deleteSelected(selector, func(l *Line) bool { return string(l.Key) == string(key) }, fromMs, toMs)
}

// dropScratch drops all of a metric.
func (y *Life) dropScratch() error {
	return y.deleteSelected(of(metricScratch), func(l *Line) bool { return l.Metric == metricScratch }, scan.TimeMsMin, scan.TimeMsMax)
}

func (y *Life) deleteSelected(selector scan.Selector, match func(*Line) bool, fromMs, toMs int64) error {
	y.counts.Deletes++
	_, err := y.store.Delete(y.context(), &selector, fromMs, toMs)
	if err != nil && (!y.full || !errors.Is(err, series.ErrReadOnly)) {
		return fmt.Errorf("a delete was refused: %w", err)
	}
	if err != nil {
		y.counts.DeletesRefused++
	}
	y.Oracle.Deleted(match, fromMs, toMs, err)
	return nil
}

// endDay compares all answers, and writes down the figures.
func (y *Life) endDay() error {
	y.Clock.AwaitDue()
	y.noteRetention()
	y.noteCuts()
	y.counts.Doubts += y.Oracle.InDoubt()
	now := y.Clock.NowMs()
	o, n := y.Oracle, y.store
	if err := o.checkSamples(n, true); err != nil {
		return err
	}
	o.ForgetDays(floorDay(now) - 3*dayMs)
	checks := []error{
		o.checkLast(n, now-2*dayMs), o.checkLast(n, scan.TimeMsMin),
		o.checkSeries(n, now-hourMs, now-1), o.checkSeries(n, now-dayMs-3*hourMs, now-dayMs-hourMs),
	}
	for _, metric := range []string{metricPod, metricDevice, metricHistory, metricEnergy} {
		checks = append(checks, o.checkWindows(n, metric, hourMs, now), o.checkWindows(n, metric, dayMs, floorDay(now)))
	}
	if y.day > 1 {
		checks = append(checks, o.checkDigests(n, floorDay(now)-2*dayMs))
	}
	if err := errors.Join(checks...); err != nil {
		return err
	}
	if err := y.compareCopies(); err != nil {
		return err
	}
	if y.day%weekDays == weekDays-1 {
		if err := y.backUp(y.machine().node); err != nil {
			return err
		}
	}
	return y.measure()
}

// compareCopies compares all answers of each node of a cluster, whether it leads or not.
func (y *Life) compareCopies() error {
	if y.cluster == nil {
		return nil
	}
	if err := y.cluster.awaitCopies(); err != nil {
		return err
	}
	for _, m := range y.machines {
		if err := y.Oracle.checkSamples(alone{m.node}, false); err != nil {
			return fmt.Errorf("the copy of %s: %w", m.name, err)
		}
	}
	return nil
}
