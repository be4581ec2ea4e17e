package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

// Summary tells of samples by their number, and by a digest that does not depend on the
// order of series.
type Summary struct {
	Series  int64  `json:"series"`
	Samples int64  `json:"samples"`
	Digest  string `json:"digest"` // 64 hexadecimal digits
}

// Digester makes a Summary. Samples of one series have to come one after the other, in
// order of time. The zero value is ready.
type Digester struct {
	key     series.Key // of the series that is under way
	hash    hash.Hash
	sum     [sha256.Size]byte
	series  int64
	samples int64
	buffer  []byte
}

// Add adds samples of a series.
func (d *Digester) Add(key series.Key, timesMs []int64, values []float64) {
	if len(timesMs) == 0 {
		return
	}
	if d.hash == nil || !bytes.Equal(d.key, key) {
		d.endSeries()
		d.key, d.hash = bytes.Clone(key), sha256.New()
		d.series++
		d.buffer = binary.LittleEndian.AppendUint64(d.buffer[:0], uint64(len(key)))
		d.hash.Write(append(d.buffer, key...))
	}
	d.buffer = d.buffer[:0]
	for i, ms := range timesMs {
		d.buffer = binary.LittleEndian.AppendUint64(d.buffer, uint64(ms))
		d.buffer = binary.LittleEndian.AppendUint64(d.buffer, math.Float64bits(values[i]))
	}
	d.hash.Write(d.buffer)
	d.samples += int64(len(timesMs))
}

func (d *Digester) endSeries() {
	if d.hash == nil {
		return
	}
	for i, b := range d.hash.Sum(nil) {
		d.sum[i] ^= b
	}
	d.hash = nil
}

// Summary gives what was added.
func (d *Digester) Summary() Summary {
	d.endSeries()
	return Summary{Series: d.series, Samples: d.samples, Digest: hex.EncodeToString(d.sum[:])}
}
