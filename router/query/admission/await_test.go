package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tickmesh/tickmesh/api/scan"
)

// TestAwait: a scan waits for memory that others hold, as long as there is hope; what is refused is not charged.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{BytesAllMax: 800})
		ctx, waits := begin(t, l, Query{User: "waits"})
		_, holds := begin(t, l, Query{User: "holds"})
		if err := holds.Take(600); err != nil {
			t.Fatal(err)
		}
		var limit *scan.LimitError
		if err := waits.Await(ctx, 701); !errors.As(err, &limit) {
			t.Error("more than one may have:", err)
		}
		ended := make(chan error)
		ask := func(ctx context.Context) { go func() { ended <- waits.Await(ctx, 300) }() }
		ask(ctx)
		synctest.Wait()
		holds.Give(400)
		if err := <-ended; err != nil || l.Bytes() != 500 {
			t.Errorf("%v; %d bytes are charged", err, l.Bytes())
		}
		waits.Give(300)
		if err := holds.Take(400); err != nil {
			t.Fatal(err)
		}
		canceled, cancel := context.WithCancel(ctx)
		ask(canceled)
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error("whoever asks has gone:", err)
		}
		var busy *BusyError
		ask(ctx) // until memoryWaitMax
		if err := <-ended; !errors.As(err, &busy) || l.Bytes() != 600 {
			t.Errorf("nobody gives any back: %v; %d bytes are charged", err, l.Bytes())
		}
		if report := waits.report(l.options.Clock(), nil); report.Bytes != 300 {
			t.Errorf("the query has held %d bytes at most", report.Bytes)
		}
		waits.End(nil)
		holds.End(nil)
		if l.Bytes() != 0 {
			t.Errorf("%d bytes are left", l.Bytes())
		}
	})
}
