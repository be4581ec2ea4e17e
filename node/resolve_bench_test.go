package node

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/router/split"
)

const (
	resolveDevices = 200_000
	resolveFields  = 10 // series of a device
	resolveShards  = 128
	resolvePoints  = 200 // of a body
)

// resolveLine appends all points of a device as one line of line protocol.
func resolveLine(b []byte, device, row int) []byte {
	b = strconv.AppendInt(append(b, "m,device=d_"...), int64(device), 10)
	for f := range resolveFields {
		b = append(b, " ,,,,,,,,,"[f])
		b = strconv.AppendInt(append(b, "s_"...), int64(f), 10)
		b = strconv.AppendInt(append(b, '='), int64(row*37+f), 10)
	}
	return append(b, " 1700000000000000000\n"...)
}

// resolvePut appends one point as a put line.
func resolvePut(b []byte, at, row int) []byte {
	b = strconv.AppendInt(append(b, "put m 1700000000 "...), int64(row*37), 10)
	b = strconv.AppendInt(append(b, " device=d_"...), int64(at/resolveFields), 10)
	b = strconv.AppendInt(append(b, " sensor=s_"...), int64(at%resolveFields), 10)
	return append(b, '\n')
}

func resolveBodies(order []int, perBody int, line func(b []byte, at, row int) []byte) (bodies [][]byte) {
	for chunk := range slices.Chunk(order, perBody) {
		body := make([]byte, 0, 12<<10)
		for i, at := range chunk {
			body = line(body, at, i)
		}
		bodies = append(bodies, slices.Clip(append(body, make([]byte, 16)...))[:len(body)])
	}
	return bodies
}

// tableResolver is a node's table without the node around it.
type tableResolver struct{ table *index.Index }

func (r tableResolver) Resolve(hint uint32, keys []series.Key, refs []series.Ref) {
	err := vfs.Guard(func() error {
		r.table.ResolveBatch(hint, keys, refs)
		return nil
	})
	if err != nil {
		panic(err)
	}
}

// create fills the table with the series of bodies.
func (r tableResolver) create(b *testing.B, bodies [][]byte, parser func(*parse.Batch, []byte) error) {
	next := make([]series.ID, resolveShards)
	var batch parse.Batch
	for _, body := range bodies {
		if err := parser(&batch, body); err != nil {
			b.Fatal(err)
		}
		for i := range batch.Lines {
			var keys parse.KeyBuilder
			l := &batch.Lines[i]
			if err := keys.Start(&batch, l, nil, parse.Limits{}); err != nil {
				b.Fatal(err)
			}
			for j := range l.Count {
				key, err := keys.Key(batch.Field(&batch.Points[l.First+j]), false)
				if err != nil {
					b.Fatal(err)
				}
				shard := key.Shard(resolveShards)
				if _, err := r.table.Create(shard, next[shard], key, 0); err != nil {
					b.Fatal(err)
				}
				next[shard]++
			}
		}
	}
}

// BenchmarkSplitKnown splits one point of each of 2 M known series a round, in
// bodies of 200 points. Only the splitter and the table are timed.
func BenchmarkSplitKnown(b *testing.B) {
	for _, c := range []struct {
		name    string
		lines   int // in all
		perBody int
		line    func(b []byte, at, row int) []byte
		parser  func(*parse.Batch, []byte) error
	}{
		{"line", resolveDevices, resolvePoints / resolveFields, resolveLine, func(b *parse.Batch, body []byte) error {
			_, err := parse.Lines(b, body, parse.LineOptions{})
			return err
		}},
		{"put", resolveDevices * resolveFields, resolvePoints, resolvePut, func(b *parse.Batch, body []byte) error {
			_, err := parse.Puts(b, body, parse.PutOptions{})
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			table, err := index.Open(index.Options{FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "index")})
			if err != nil {
				b.Fatal(err)
			}
			defer table.Close()
			s, err := split.New(split.Options{Shards: resolveShards})
			if err != nil {
				b.Fatal(err)
			}
			order := rand.New(rand.NewPCG(1, 2)).Perm(c.lines)
			bodies := map[string][][]byte{"shuffled": resolveBodies(order, c.perBody, c.line)}
			slices.Sort(order)
			bodies["created"] = resolveBodies(order, c.perBody, c.line)
			resolver := tableResolver{table}
			resolver.create(b, bodies["created"], c.parser)
			for _, name := range []string{"shuffled", "created"} {
				b.Run(name, func(b *testing.B) { benchmarkSplitKnown(b, s, resolver, bodies[name], c.parser) })
			}
		})
	}
}

func benchmarkSplitKnown(b *testing.B, s *split.Splitter, r split.Resolver, bodies [][]byte, parser func(*parse.Batch, []byte) error) {
	var batch parse.Batch
	var spent time.Duration
	points := 0
	b.ReportAllocs()
	for b.Loop() {
		for _, body := range bodies {
			if err := parser(&batch, body); err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			frame := s.Split(&batch, nil, r, 1)
			spent += time.Since(start)
			points += frame.Points
		}
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(points), "split-ns/point")
}
