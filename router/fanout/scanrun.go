package fanout

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// scanRun is one Scan under way.
type scanRun struct {
	gather
	request  *scan.Request
	visit    scan.Visitor
	workers  chan int // numbers of visitors that are free
	heldMax  int      // bytes of one series that a call holds
	selector *tickmeshv1.Selector
	windows  *tickmeshv1.Windows
	limits   *tickmeshv1.ScanLimits

	seriesGiven  atomic.Int64
	samplesGiven atomic.Int64
}

// samplesReadMax bounds what a message can claim, so that sums stay within 64 bits.
const samplesReadMax = 1 << 40

// countRead holds the samples that a node has read for values at steps to the request's limits.
func (r *scanRun) countRead(m *nodev1.ScanResponse) error {
	if r.request.Steps == nil {
		return nil
	}
	n := int64(min(m.GetSamplesRead(), samplesReadMax))
	if m.SamplesRead == nil {
		for _, chunk := range m.GetChunks() {
			n += int64(len(chunk.GetColumns().GetTimeDeltasMs()))
		}
	}
	if limited(r.samplesGiven.Add(n), r.request.Limits.SamplesMax) {
		return &scan.LimitError{What: "samples", Limit: r.request.Limits.SamplesMax}
	}
	return r.request.ReadSamples(n)
}

// count holds what is given to the request's limits.
func (r *scanRun) count(samples int, first bool) error {
	if first && limited(r.seriesGiven.Add(1), r.request.Limits.SeriesMax) {
		return &scan.LimitError{What: "series", Limit: r.request.Limits.SeriesMax}
	}
	if limited(r.samplesGiven.Add(int64(samples)), r.request.Limits.SamplesMax) {
		return &scan.LimitError{What: "samples", Limit: r.request.Limits.SamplesMax}
	}
	return nil
}
