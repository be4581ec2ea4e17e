package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// TestDigestWhileAnEntryStalls: a part of the entry may be there, so a digest would stand
// for no entry at all, and the copy would seem to differ from the others.
func TestDigestWhileAnEntryStalls(t *testing.T) {
	log := newLabLog(0)
	n := newLabNode(t, []*labLog{log, newLabLog(1), newLabLog(2)})
	defer n.end()
	var e series.BatchEncoder
	for i := range int64(1000) {
		e.Append(e.Define(log.keys[0]), log.nowMs+i, i, 0)
	}
	e.Append(e.Define(log.keys[1]), log.nowMs, 1, 0)
	points, err := failpoint.Parse(fmt.Sprintf("%s=error@2", FailSeriesCreate), Failpoints())
	if err != nil {
		t.Fatal(err)
	}
	n.e.hit = points.Hit
	digest := func() (transfer.RangeDigest, error) {
		return n.e.RangeDigest(context.Background(), 0, scan.TimeMsMin, scan.TimeMsMax, func(int) error { return nil })
	}
	if _, err := digest(); err != nil {
		t.Fatal(err)
	}
	entry := entry.Entry{Kind: entry.Samples, Index: 1, Body: samplesBody(e.AppendTo(nil))}
	if err := n.e.Apply(0, &entry); !errors.Is(err, ErrStalled) {
		t.Fatal(err)
	}
	if d, err := digest(); !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("a digest of %d samples for entries %d to %d, %v", d.Samples, d.Since, d.Applied, err)
	}
	if err := n.e.Resume(); err != nil {
		t.Fatal(err)
	}
	if d, err := digest(); err != nil || d.Samples != 1001 || d.Since != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
}
