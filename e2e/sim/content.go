package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

// A shard has a few series with a few times each: every (series, time) is a register
// that is written, overwritten, deleted and read again and again.
const (
	seriesPerShard = 4
	timesPerSeries = 3
	registers      = seriesPerShard * timesPerSeries
)

// timeMin is the time of a series' first register, ms.
const timeMin = 1_700_000_000_000

// metric is that of all series.
const metric = "m"

// keysOf returns the keys of each shard's series.
func keysOf(shards int) [][seriesPerShard]series.Key {
	keys := make([][seriesPerShard]series.Key, shards)
	found := make([]int, shards)
	for i, left := 0, shards*seriesPerShard; left > 0; i++ {
		tags := []series.Tag{{Name: []byte("i"), Value: fmt.Append(nil, i)}}
		key := series.AppendKey(nil, nil, []byte(metric), tags)
		if shard := key.Shard(shards); found[shard] < seriesPerShard {
			keys[shard][found[shard]] = key
			found[shard]++
			left--
		}
	}
	return keys
}

// sample is what a write says of a register.
type sample struct {
	name  uint64 // number of the series within its shard
	time  uint64
	value uint64
}

// encodeBatch encodes samples of a shard: with the ids of series, or else with their keys.
func encodeBatch(samples []sample, keys *[seriesPerShard]series.Key, ids *[seriesPerShard]cached) []byte {
	var e series.BatchEncoder
	var refs [seriesPerShard]series.ID
	var defined [seriesPerShard]bool
	for _, s := range samples {
		switch {
		case ids != nil:
			refs[s.name] = series.ID(ids[s.name].id)
		case !defined[s.name]:
			defined[s.name] = true
			refs[s.name] = e.Define(keys[s.name])
		}
		e.Append(refs[s.name], timeMin+int64(s.time), int64(s.value), 0)
	}
	return e.AppendTo(nil)
}

var errBody = errors.New("the body of an entry cannot be read")

// deletion is what a delete says: times from first to last of the series with an id.
type deletion struct {
	id          series.BatchID
	name        uint64
	first, last uint64
}

func (d *deletion) body(timeMs int64) []byte {
	fromMs, toMs := timeMin+int64(d.first), timeMin+int64(d.last)
	if d.first == 0 && d.last >= timesPerSeries { // of all times that there are
		fromMs, toMs = scan.TimeMsMin, scan.TimeMsMax
	}
	body := entry.DeleteBody([]uint32{uint32(d.name)}, fromMs, toMs)
	return entry.NamedDeleteBody(timeMs, d.id, body)
}

// parseDeletion reads the body of a named delete, without the product's code.
func parseDeletion(body []byte) (d deletion, err error) {
	signed := func() int64 { return next(&body, &err, binary.Varint) }
	unsigned := func() uint64 { return next(&body, &err, binary.Uvarint) }
	signed() // the leader's clock
	d.id = series.BatchID{Session: unsigned(), Counter: unsigned()}
	d.first, d.last = uint64(max(signed(), timeMin)-timeMin), uint64(signed()-timeMin)
	if unsigned() != 1 {
		err = errBody
	}
	d.name = unsigned()
	return d, err
}

// next reads the number that a body begins with.
func next[T int64 | uint64](body *[]byte, err *error, read func([]byte) (T, int)) T {
	v, n := read(*body)
	if n <= 0 {
		*err = errBody
		return 0
	}
	*body = (*body)[n:]
	return v
}

// content is what a shard holds.
type content struct {
	keys   []uint8                // by id: number of the series
	ids    [seriesPerShard]uint64 // by number of the series: one more than its id; 0: none, or it is forgotten
	values [registers]uint64      // 0: none
}

// known returns the number of ids that were given.
func (c *content) known() uint64 { return uint64(len(c.keys)) }

func (c *content) define(key uint64) uint64 {
	if c.ids[key] == 0 {
		c.keys = append(c.keys, uint8(key))
		c.ids[key] = c.known()
	}
	return c.ids[key] - 1
}

// forgotten reports whether an id that was given is forgotten.
func (c *content) forgotten(id uint64) bool { return c.ids[c.keys[id]] != id+1 }

// empty reports whether a series has no samples.
func (c *content) empty(key uint64) bool {
	for _, v := range c.values[key*timesPerSeries:][:timesPerSeries] {
		if v != 0 {
			return false
		}
	}
	return true
}

func (c *content) remove(d *deletion) {
	for t := d.first; t <= d.last && t < timesPerSeries; t++ {
		c.values[uint64(c.keys[d.name])*timesPerSeries+t] = 0
	}
}

// digest sums up what is held, in a way that does not depend on the order of writes.
func (c *content) digest() uint64 {
	sum := uint64(14695981039346656037)
	mix := func(v uint64) { sum = bits.RotateLeft64((sum^v)*1099511628211, 23) }
	mix(c.known())
	for _, id := range c.ids {
		mix(id)
	}
	for _, v := range c.values {
		mix(v)
	}
	return sum
}

// batchWindow is how many counters of a session are known one by one: that of node/storage.
const batchWindow = 128

func hashBytes(parts ...[]byte) uint64 {
	sum := uint64(14695981039346656037)
	for _, part := range parts {
		for _, c := range part {
			sum = (sum ^ uint64(c)) * 1099511628211
		}
	}
	return sum
}
