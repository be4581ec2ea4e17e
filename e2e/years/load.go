package years

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
)

// Config holds how much there is of what.
type Config struct {
	Seed uint64
	Days int
	Step time.Duration // between the samples of pods, and of devices

	Pods        int // that live at once, each for a day
	Devices     int // that stay
	History     int // series that are filled in once a week, as far back as they are kept
	HistoryDays int
	Scratch     int // series of a metric that is dropped once a week
	Energy      int // series of which hours outlive samples
}

// Metrics of the load. Each has its own retention.
const (
	metricPod     = "pod"
	metricDevice  = "device"
	metricHistory = "history"
	metricScratch = "scratch"
	metricEnergy  = "energy" // of which hours outlive samples
)

var metrics = [...]string{metricPod, metricDevice, metricHistory, metricScratch, metricEnergy}

// energyDays is for how long the last sample of each hour of metricEnergy is kept, and rollups.
const energyDays = 10

// retentionDays is what the node's own flag says: of devices and scratch.
const retentionDays = 6

// Rules returns the rules of a time: on four days of a week, and on the other three.
func (c *Config) Rules(nowMs int64) string {
	if weekday(nowMs) < 4 {
		return fmt.Sprintf("retention-rules:\n  - {metric: pod, retention: 4d}\n  - {metric: history, retention: %dd}\n  - {metric: energy, retention: %dd, raw: 3d}\n", c.HistoryDays, energyDays)
	}
	return fmt.Sprintf("retention-rules:\n  - {metric: \"p*\", retention: 3d}\n  - {metric: /hist.*/, retention: %dd}\n  - {metric: device, retention: 5d}\n  - {metric: energy, retention: %dd, raw: 2d}\n", c.HistoryDays, energyDays)
}

// keepMs returns for how long the rules of a time keep a metric: the same, said by hand.
func (c *Config) keepMs(metric string, nowMs int64) int64 {
	late := weekday(nowMs) >= 4
	switch {
	case metric == metricPod && late:
		return 3 * dayMs
	case metric == metricPod:
		return 4 * dayMs
	case metric == metricHistory:
		return int64(c.HistoryDays) * dayMs
	case metric == metricEnergy:
		return energyDays * dayMs
	case metric == metricDevice && late:
		return 5 * dayMs
	}
	return retentionDays * dayMs
}

// rawMs returns for how long the rules of a time keep all samples of metricEnergy: the same, said by hand.
func (c *Config) rawMs(nowMs int64) int64 {
	if weekday(nowMs) >= 4 {
		return 2 * dayMs
	}
	return 3 * dayMs
}

func weekday(nowMs int64) int { return int((nowMs - beginMs) / dayMs % weekDays) }

// rules reads the rules of all times once.
func (c *Config) rules() (func(nowMs int64) *tenancy.Rules, error) {
	var week [weekDays]*tenancy.Rules
	for day := range week {
		r, err := tenancy.Parse("rules", []byte(c.Rules(beginMs+int64(day)*dayMs)))
		if err != nil {
			return nil, err
		}
		week[day] = r
	}
	return func(nowMs int64) *tenancy.Rules { return week[weekday(nowMs)] }, nil
}

// Load decides what is written.
type Load struct {
	c       *Config
	rng     *rand.Rand
	pods    []series.Key // by slot, of those that live
	born    []int64      // which pod a slot has
	devices []series.Key
	held    map[int][]Sample // what late devices have not sent yet
	history []series.Key
	energy  []series.Key
}

func newLoad(c *Config, rng *rand.Rand) *Load {
	l := &Load{c: c, rng: rng, pods: make([]series.Key, c.Pods), born: make([]int64, c.Pods), held: map[int][]Sample{}}
	for i := range c.Devices {
		l.devices = append(l.devices, keyOf(metricDevice, "device", i, "site", i%7))
	}
	for i := range c.History {
		l.history = append(l.history, keyOf(metricHistory, "meter", i, "site", i%7))
	}
	for i := range c.Energy {
		l.energy = append(l.energy, keyOf(metricEnergy, "meter", i, "site", i%7))
	}
	return l
}

func keyOf(metric string, namesAndNumbers ...any) series.Key {
	var tags []series.Tag
	for i := 0; i < len(namesAndNumbers); i += 2 {
		name := fmt.Sprint(namesAndNumbers[i])
		tags = append(tags, series.Tag{Name: []byte(name), Value: fmt.Appendf(nil, "%s-%v", name, namesAndNumbers[i+1])})
	}
	return series.AppendKey(nil, nil, []byte(metric), tags)
}

func (l *Load) value() float64 { return float64(l.rng.IntN(100_000)) / 100 }

// within returns a time of a step.
func (l *Load) within(nowMs int64) int64 { return nowMs + l.rng.Int64N(l.c.Step.Milliseconds()) }

// Pods returns what the pods that live write in a step. A slot's pods follow each other, each for a day, and
// the slots' are spread over it.
func (l *Load) Pods(nowMs int64) []Sample {
	batch := make([]Sample, 0, len(l.pods))
	for slot := range l.pods {
		age := nowMs - beginMs + dayMs - dayMs*int64(slot)/int64(len(l.pods))
		if pod := 1 + age/dayMs; l.born[slot] != pod {
			l.born[slot] = pod
			l.pods[slot] = keyOf(metricPod, "pod", fmt.Sprintf("%d-%d", pod, slot), "namespace", slot%12, "host", slot%31)
		}
		batch = append(batch, Sample{l.pods[slot], l.within(nowMs), l.value()})
	}
	return batch
}

// Devices returns what comes of devices in a step. Every tenth sends what it has of a day or two at once,
// and every tenth in disorder, with corrections of what it has sent.
func (l *Load) Devices(nowMs int64) (batch []Sample) {
	for i, key := range l.devices {
		s := Sample{key, l.within(nowMs), l.value()}
		switch i % 10 {
		case 3:
			l.held[i] = append(l.held[i], s)
			if l.rng.Int64N(36*hourMs) < l.c.Step.Milliseconds() {
				batch = append(batch, l.held[i]...)
				delete(l.held, i)
			}
		case 7:
			for range 1 + l.rng.IntN(2) {
				back := l.rng.Int64N(3 * hourMs)
				batch = append(batch, Sample{key, (s.TimeMs - back) / minuteMs * minuteMs, l.value()})
			}
		default:
			batch = append(batch, s)
		}
	}
	return batch
}

// Scratch returns a step of the metric that is dropped.
func (l *Load) Scratch(nowMs int64) (batch []Sample) {
	week := (nowMs - beginMs) / dayMs / weekDays
	for i := range l.c.Scratch {
		batch = append(batch, Sample{keyOf(metricScratch, "run", fmt.Sprintf("%d-%d", week, i)), l.within(nowMs), l.value()})
	}
	return batch
}

// Energy returns a step of the metric of which hours outlive samples.
func (l *Load) Energy(nowMs int64) (batch []Sample) {
	for _, key := range l.energy {
		batch = append(batch, Sample{key, l.within(nowMs), l.value()})
	}
	return batch
}

// historyBatch bounds a batch of Backfill.
const historyBatch = 2000

// Backfill returns all of the history as far as it is kept, every hour, in random order, with new values.
func (l *Load) Backfill(nowMs int64) (batches [][]Sample) {
	var all []Sample
	for _, key := range l.history {
		for at := nowMs - int64(l.c.HistoryDays)*dayMs; at < nowMs; at += hourMs {
			all = append(all, Sample{key, at - at%hourMs, l.value()})
		}
	}
	l.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for len(all) > 0 {
		n := min(len(all), historyBatch)
		batches, all = append(batches, all[:n]), all[n:]
	}
	return batches
}
