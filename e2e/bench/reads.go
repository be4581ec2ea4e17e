package bench

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// The series of workload "queries", in Prometheus' words:
//
//	long{host="h_0"}                   one series, days of samples, up to baseSeconds
//	fleet{host="h_N",sensor="s_K"}     200 hosts with ten sensors, two hours from then on
//	wide{host="h_N",sensor="s_K"}      many series with two samples each, at the end of these
//	many{host="h_N",sensor="s_K"}      very many, the same; they go on while reads are measured
const (
	readStepS     = 10
	fleetHosts    = 200
	fleetSeconds  = 7200
	readEndS      = baseSeconds + fleetSeconds - readStepS // the last sample
	daySeconds    = 86_400
	topkCount     = 10
	regexpHosts   = 1000 // one host of so many matches
	readsFirstS   = baseSeconds + 60
	readsSpreadS  = fleetSeconds - 3600 - 120
	labelsPerHost = workload.SensorCount
)

// readData is what was written, for what the answers must be.
type readData struct {
	scale ReadScale
	long  []float64
	fleet [][]float64 // by series
}

// ReadScale is the size of workload "queries".
type ReadScale struct {
	LongDays   int // of one series, a sample each 10 s
	WideSeries int // whose last values are asked for
	ManySeries int // among which few are looked for, and which are written meanwhile
	WriteRate  int // points a second
}

func makeReadData(scale ReadScale) *readData {
	d := &readData{scale: scale, long: make([]float64, scale.LongDays*daySeconds/readStepS), fleet: make([][]float64, fleetHosts*workload.SensorCount)}
	device := workload.NewDevice(seed, fleetHosts, false)
	for i := range d.long {
		d.long[i] = device.Next()[0].Float()
	}
	for host := range fleetHosts {
		device := workload.NewDevice(seed, host, false)
		for range fleetSeconds / readStepS {
			for sensor, value := range device.Next() {
				n := host*workload.SensorCount + sensor
				d.fleet[n] = append(d.fleet[n], value.Float())
			}
		}
	}
	return d
}

// lastValue is that of a series of wide and many at readEndS.
func lastValue(n int) float64 { return float64(n%10_007) / 10 }

// read is one question and what is known of its answer.
type read struct {
	path   string
	points int
	value  func() float64 // the mean of the answer's values
}

// reader is a kind of read whose time, or series, is drawn anew each time.
type reader struct {
	name string
	draw func(d *readData, random *rand.Rand) read
}

func (d *readData) readers() []reader {
	return []reader{
		{"1 h of 1 series", func(d *readData, r *rand.Rand) read { return d.hour(r, 1) }},
		{"1 h of 10 series", func(d *readData, r *rand.Rand) read { return d.hour(r, workload.SensorCount) }},
		{"1 h by minute over 2,000 series", (*readData).minutes},
		{"top 10 of 2,000 series, 1 h by minute", (*readData).top},
		{fmt.Sprintf("%d days by hour of 1 series", d.scale.LongDays), (*readData).days},
		{fmt.Sprintf("last values of %d k series", d.scale.WideSeries/1000), (*readData).last},
		{fmt.Sprintf("sum of last values of %d k series", d.scale.WideSeries/1000), (*readData).lastSum},
		{fmt.Sprintf("regexp on %d k series", d.scale.ManySeries/1000), (*readData).regexp},
		{fmt.Sprintf("label values on %d k series", d.scale.ManySeries/1000), (*readData).labelValues},
	}
}

func instant(expression string, atS int64) string {
	return fmt.Sprintf("/api/v1/query?time=%d&query=%s", atS, url.QueryEscape(expression))
}

func ranged(expression string, fromS, toS, stepS int64) string {
	return fmt.Sprintf("/api/v1/query_range?start=%d&end=%d&step=%d&query=%s", fromS, toS, stepS, url.QueryEscape(expression))
}

// drawHour returns a whole minute from which there is an hour of the fleet.
func drawHour(r *rand.Rand) int64 { return readsFirstS + 60*int64(r.IntN(readsSpreadS/60)) }

// at is the place of a sample of the fleet.
func at(timeS int64) int { return int((timeS - baseSeconds) / readStepS) }

func (d *readData) hour(r *rand.Rand, count int) read {
	host, from := r.IntN(fleetHosts), drawHour(r)
	of, expression := d.fleet[host*workload.SensorCount:][:workload.SensorCount], fmt.Sprintf(`fleet{host="h_%d"}`, host)
	if count == 1 {
		sensor := r.IntN(workload.SensorCount)
		of, expression = of[sensor:][:1], fmt.Sprintf(`fleet{host="h_%d",sensor="s_%d"}`, host, sensor)
	}
	const steps = 3600 / readStepS
	return read{ranged(expression, from, from+3600-readStepS, readStepS), count * steps, func() float64 {
		sum := 0.0
		for _, values := range of {
			sum += sumOf(values[at(from):][:steps])
		}
		return sum / float64(count*steps)
	}}
}

// Windows end between two samples, so that it does not matter whether their ends are in.
const betweenS = 5

func (d *readData) minutes(r *rand.Rand) read {
	from := drawHour(r)
	first := from + 60 + betweenS
	return read{ranged("avg(avg_over_time(fleet[1m]))", first, first+59*60, 60), 60, func() float64 {
		sum := 0.0
		for _, values := range d.fleet {
			sum += sumOf(values[at(from)+1:][:3600/readStepS])
		}
		return sum / float64(len(d.fleet)*3600/readStepS)
	}}
}

func (d *readData) top(r *rand.Rand) read {
	from := drawHour(r)
	const window, steps = 300, 55
	first := from + window + betweenS
	return read{ranged(fmt.Sprintf("topk(%d, avg_over_time(fleet[5m]))", topkCount), first, first+(steps-1)*60, 60), steps * topkCount, func() float64 {
		total := 0.0
		means := make([]float64, len(d.fleet))
		for step := range int64(steps) {
			for i, values := range d.fleet {
				means[i] = sumOf(values[at(from+60*step)+1:][:window/readStepS]) / (window / readStepS)
			}
			slices.Sort(means)
			total += sumOf(means[len(means)-topkCount:])
		}
		return total / steps / topkCount
	}}
}

func (d *readData) days(r *rand.Rand) read {
	const perHour = 3600 / readStepS
	back, windows := r.IntN(perHour), 24*d.scale.LongDays-1
	last := baseSeconds - int64(back)*readStepS - betweenS
	return read{ranged("avg_over_time(long[1h])", last-3600*int64(windows-1), last, 3600), windows, func() float64 {
		end := len(d.long) - back
		return sumOf(d.long[end-windows*perHour:end]) / float64(windows*perHour)
	}}
}

func (d *readData) last(*rand.Rand) read {
	return read{instant("wide", readEndS+1), d.scale.WideSeries, func() float64 { return d.wideSum() / float64(d.scale.WideSeries) }}
}

func (d *readData) lastSum(*rand.Rand) read {
	return read{instant("sum(wide)", readEndS+1), 1, d.wideSum}
}

func (d *readData) wideSum() (sum float64) {
	for n := range d.scale.WideSeries {
		sum += lastValue(n)
	}
	return sum
}

// regexp looks for the hosts whose number ends with three digits.
func (d *readData) regexp(r *rand.Rand) read {
	digits, sensor := 100+r.IntN(900), r.IntN(workload.SensorCount)
	expression := fmt.Sprintf(`many{host=~"h_[0-9]*%d",sensor="s_%d"}`, digits, sensor)
	count := d.scale.ManySeries / workload.SensorCount / regexpHosts
	return read{instant(expression, readEndS+1), count, func() float64 {
		sum := 0.0
		for i := range count {
			sum += lastValue((i*regexpHosts+digits)*workload.SensorCount + sensor)
		}
		return sum / float64(count)
	}}
}

func (d *readData) labelValues(*rand.Rand) read {
	path := fmt.Sprintf("/api/v1/label/host/values?start=%d&end=%d&match%%5B%%5D=many", readEndS-3600, readEndS+1)
	return read{path, d.scale.ManySeries / labelsPerHost, func() float64 { return 0 }}
}

func sumOf(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// want is what the answer must be.
func (r read) want() target.Answer { return target.Answer{Points: r.points, Value: r.value()} }

func hostName(n int) string { return "h_" + strconv.Itoa(n) }
