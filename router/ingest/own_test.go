package ingest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/series"
)

// What rules write goes the way of remote writes: refusals are told apart from errors that pass, the other samples are
// written, and all is counted.
func TestWriteRules(t *testing.T) {
	r := start(t, nil)
	good := series1([]string{"__name__", "r:sum", "job", "a"}, sample{1, 1000})
	nameless := series1([]string{"job", "b"}, sample{2, 1000})
	if err := r.WriteRules(t.Context(), "home", good); err != nil {
		t.Fatal(err)
	}
	if stored := r.stored(); len(stored) != 1 || !strings.Contains(stored[0], "r:sum") || !strings.Contains(stored[0], "home") {
		t.Errorf("%q are stored", stored)
	}
	if err := r.WriteRules(t.Context(), "home", append(nameless, good...)); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "1 of 2") || r.total() != 2 {
		t.Errorf("a series without a name: %v, %d samples", err, r.total())
	}
	for kind, final := range map[error]bool{series.ErrUnavailable: false, series.ErrOverloaded: false, series.ErrSeriesRate: false, series.ErrSeriesLimit: true} {
		r.beforeWrites(func(context.Context) error { return kind })
		if err := r.WriteRules(t.Context(), "", good); !errors.Is(err, kind) || errors.Is(err, ErrRefused) != final {
			t.Errorf("%v: %v", kind, err)
		}
	}
	r.beforeWrites(nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.WriteRules(ended, "", good); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
	pm := &r.metrics.protocols[protocolRules]
	if a, b, c := pm.accepted.Load(), pm.refused.Load(), pm.failed.Load(); a != 2 || b != 1 || c != 4 {
		t.Errorf("%d accepted, %d refused, %d failed", a, b, c)
	}
}

// What MQTT writes is counted as its own, and which series was refused is told.
func TestWriteMQTT(t *testing.T) {
	r := start(t, nil)
	good := series1([]string{"__name__", "power", "room", "den"}, sample{1, 1000})
	nameless := series1([]string{"room", "attic"}, sample{2, 1000})
	err := r.WriteMQTT(t.Context(), "home", append(append([]byte{}, good...), nameless...))
	if refused := (*RefusedError)(nil); !errors.As(err, &refused) || !errors.Is(err, ErrRefused) || refused.First != 2 || refused.Refused != 1 || refused.Of != 2 {
		t.Errorf("%v", err)
	}
	pm := &r.metrics.protocols[protocolMQTT]
	if a, b := pm.accepted.Load(), pm.refused.Load(); a != 1 || b != 1 {
		t.Errorf("%d accepted, %d refused", a, b)
	}
	if held := r.metrics.writes.Stats().Used; held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// What SELECT INTO writes is counted as its own.
func TestWriteSelected(t *testing.T) {
	r := start(t, nil)
	if err := r.WriteSelected(t.Context(), "home", series1([]string{"__name__", "power", "room", "den"}, sample{1, 1000})); err != nil {
		t.Error(err)
	}
	if accepted := r.metrics.protocols[protocolSelectInto].accepted.Load(); accepted != 1 || r.total() != 1 {
		t.Errorf("%d accepted, %d stored", accepted, r.total())
	}
}

// Messages that wait may take all that one owner may hold: what they are written with is charged to another, or they
// would wait for each other for ever.
func TestWriteMQTTWhileMessagesFillTheirShare(t *testing.T) {
	r := start(t, nil)
	messages := r.metrics.writes.Lease(budget.Owner{Tenant: MQTTOwner})
	defer messages.Close()
	other := r.metrics.writes.Lease(budget.Owner{Tenant: "other"})
	defer other.Close()
	if !other.Charge(1) {
		t.Fatal("there is no room")
	}
	for n := r.metrics.writes.BytesMax(); n > 0; {
		if !messages.Charge(n) {
			n /= 2
		}
	}
	var request []byte
	for i := range 10_000 {
		request = append(request, series1([]string{"__name__", "power", "room", strconv.Itoa(i)}, sample{1, 1000})...)
	}
	if err := r.WriteMQTT(t.Context(), "home", request); err != nil {
		t.Error(err)
	}
}
