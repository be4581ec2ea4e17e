package split

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

const benchShards = 128

// catalogue is a resolver that learns the definitions of frames, giving ids in
// order as a node does.
type catalogue struct {
	refs map[string]series.Ref
	keys []string // by hint
	next [benchShards]series.ID
}

func newCatalogue() *catalogue { return &catalogue{refs: make(map[string]series.Ref)} }

func (c *catalogue) Resolve(hint uint32, keys []series.Key, refs []series.Ref) {
	for i, key := range keys {
		name := ""
		if next := hint + 1; int(next) < len(c.keys) {
			name = c.keys[next]
		}
		if name != string(key) {
			name = string(key)
		}
		ref, ok := c.refs[name]
		if !ok {
			ref.Hint = series.HintNone
		}
		refs[i], hint = ref, ref.Hint
	}
}

// learn takes a frame's definitions as a node would.
func (c *catalogue) learn(f *series.Frame) {
	var r series.BatchReader
	for _, part := range f.Parts {
		r.Reset(part.Batch)
		for key, ok := r.NextDefinition(); ok; key, ok = r.NextDefinition() {
			c.refs[string(key)] = series.Ref{Hint: uint32(len(c.keys)), Shard: part.Shard, ID: c.next[part.Shard]}
			c.keys = append(c.keys, string(key))
			c.next[part.Shard]++
		}
	}
}

// Values as real sensors give them: a walk with two decimals, a counter, a slow
// wave with two decimals, a step.
func appendValue(b []byte, kind, row int, integerSuffix string) []byte {
	switch kind % 4 {
	case 0:
		return strconv.AppendFloat(b, 20+float64(row*37%1000)/100, 'f', 2, 64)
	case 1:
		return append(strconv.AppendInt(b, int64(100000+row*17), 10), integerSuffix...)
	case 2:
		return strconv.AppendFloat(b, float64(row*91%20000)/100-100, 'f', 2, 64)
	}
	return append(strconv.AppendInt(b, int64(row/100%5), 10), integerSuffix...)
}

func lineBody(devices []int, row int) []byte {
	var b []byte
	for i, d := range devices {
		b = append(b, "m,device=d_"...)
		b = strconv.AppendInt(b, int64(d), 10)
		for f := range 10 {
			b = append(b, " ,,,,,,,,,"[f])
			b = append(b, fmt.Sprintf("s_%d=", f)...)
			b = appendValue(b, f, row+i*31+f, "i")
		}
		b = append(b, " 1700000"...)
		b = strconv.AppendInt(b, int64(100+row), 10)
		b = append(b, "000000000\n"...)
	}
	return append(b, make([]byte, 16)...)[:len(b)]
}

func putBody(devices []int, row int) []byte {
	var b []byte
	for i, d := range devices {
		for f := range 10 {
			b = append(b, "put m 1700000"...)
			b = strconv.AppendInt(b, int64(100+row), 10)
			b = append(b, ' ')
			b = appendValue(b, f, row+i*31+f, "")
			b = append(b, fmt.Sprintf(" device=d_%d sensor=s_%d\n", d, f)...)
		}
	}
	return append(b, make([]byte, 16)...)[:len(b)]
}

func jsonBody(devices []int, row int) []byte {
	b := []byte{'['}
	for i, d := range devices {
		for f := range 10 {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(b, fmt.Sprintf(`{"metric":"m","timestamp":1700000%d,"value":`, 100+row)...)
			b = appendValue(b, f, row+i*31+f, "")
			b = append(b, fmt.Sprintf(`,"tags":{"device":"d_%d","sensor":"s_%d"}}`, d, f)...)
		}
	}
	b = append(b, ']')
	return append(b, make([]byte, 16)...)[:len(b)]
}

func lines(b *parse.Batch, body []byte) error {
	_, err := parse.Lines(b, body, parse.LineOptions{})
	return err
}

func puts(b *parse.Batch, body []byte) error {
	_, err := parse.Puts(b, body, parse.PutOptions{})
	return err
}

func json(b *parse.Batch, body []byte) error { return parse.JSON(b, body, parse.Limits{}) }

// cpuTime returns the processor time of this process: on a busy machine it says
// more than the wall's clock.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func report(b *testing.B, points int, cpu time.Duration) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(points), "ns/point")
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(points), "cpu-ns/point")
	b.ReportMetric(float64(points)/b.Elapsed().Seconds()/1e6, "Mpoints/s")
}

// benchmark runs parse, split or both over bodies in turn.
func benchmark(b *testing.B, bodies [][]byte, parser func(*parse.Batch, []byte) error, parsing, splitting bool) {
	s, err := New(Options{Shards: benchShards})
	if err != nil {
		b.Fatal(err)
	}
	known := newCatalogue()
	batches := make([]parse.Batch, len(bodies))
	points := 0
	for i, body := range bodies {
		if err := parser(&batches[i], body); err != nil || batches[i].ErrorsTotal > 0 {
			b.Fatal(err, batches[i].Errors)
		}
		known.learn(s.Split(&batches[i], nil, known, 1))
		points += s.Split(&batches[i], nil, known, 1).Points
	}
	var batch parse.Batch
	b.ReportAllocs()
	n := 0
	cpu := cpuTime(b)
	for b.Loop() {
		for i, body := range bodies {
			at := &batches[i]
			if parsing {
				at = &batch
				if err := parser(at, body); err != nil {
					b.Fatal(err)
				}
			}
			if splitting {
				s.Split(at, nil, known, 1)
			}
		}
		n += points
	}
	report(b, n, cpuTime(b)-cpu)
}

func benchmarkStages(b *testing.B, bodies [][]byte, parser func(*parse.Batch, []byte) error) {
	b.Run("parse", func(b *testing.B) { benchmark(b, bodies, parser, true, false) })
	b.Run("split", func(b *testing.B) { benchmark(b, bodies, parser, false, true) })
	b.Run("both", func(b *testing.B) { benchmark(b, bodies, parser, true, true) })
}

// bodiesOf makes 16 bodies of 200 points each over the same 20 devices.
func bodiesOf(make func(devices []int, row int) []byte) [][]byte {
	devices := rand.New(rand.NewPCG(1, 2)).Perm(2000)[:20]
	bodies := [][]byte{}
	for row := range 16 {
		bodies = append(bodies, make(devices, row*13))
	}
	return bodies
}

func BenchmarkLines(b *testing.B) { benchmarkStages(b, bodiesOf(lineBody), lines) }

// BenchmarkAgentLines sends what a host's agent does: lines of several
// measurements in turn, with integers, booleans and strings among the floats.
func BenchmarkAgentLines(b *testing.B) {
	benchmarkStages(b, bodiesOf(func(devices []int, row int) []byte {
		var body []byte
		for _, d := range devices[:5] {
			host := fmt.Sprintf("host=web-%d.example", d)
			body = fmt.Appendf(body, "cpu,cpu=cpu0,%s usage_user=%d.25,usage_system=1.5,usage_idle=9%d.125 1700000%d000000000\n", host, row%10, row%9, 100+row)
			body = fmt.Appendf(body, "disk,device=sda1,fstype=ext4,%s,path=/var\\ log free=%di,total=53660876800i,used_percent=41.2 1700000%d000000000\n", host, 1000000+row, 100+row)
			body = fmt.Appendf(body, "system,%s load1=0.%d,n_cpus=4i,uptime_format=\"3 days, 1:02\" 1700000%d000000000\n", host, row%100, 100+row)
			body = fmt.Appendf(body, "net,%s,interface=eth0 bytes_recv=%di,up=true 1700000%d000000000\n", host, 5000000+row, 100+row)
		}
		return append(body, make([]byte, 16)...)[:len(body)]
	}), lines)
}

func BenchmarkPuts(b *testing.B) { benchmarkStages(b, bodiesOf(putBody), puts) }
func BenchmarkJSON(b *testing.B) { benchmarkStages(b, bodiesOf(jsonBody), json) }

// constant finds every key: as in a map that costs nothing. It leaves what the
// splitter itself does for lines that its cache of lines does not hold.
type constant struct{ id series.ID }

func (c *constant) Resolve(_ uint32, _ []series.Key, refs []series.Ref) {
	for i := range refs {
		c.id++
		refs[i] = series.Ref{Hint: uint32(c.id), Shard: uint16(c.id/10) % benchShards, ID: c.id}
	}
}

// BenchmarkShuffledDevices sends lines of 2 M devices in random order, so that
// the cache never helps.
func BenchmarkShuffledDevices(b *testing.B) {
	s, err := New(Options{Shards: benchShards})
	if err != nil {
		b.Fatal(err)
	}
	order := rand.New(rand.NewPCG(3, 4)).Perm(2_000_000)[:40_000]
	var bodies [][]byte
	for i := 0; i < len(order); i += 20 {
		bodies = append(bodies, lineBody(order[i:i+20], i/20%100))
	}
	var batch parse.Batch
	resolver := &constant{}
	b.ReportAllocs()
	n := 0
	cpu := cpuTime(b)
	for b.Loop() {
		for _, body := range bodies {
			if err := lines(&batch, body); err != nil {
				b.Fatal(err)
			}
			n += s.Split(&batch, nil, resolver, 1).Points
		}
	}
	report(b, n, cpuTime(b)-cpu)
}
