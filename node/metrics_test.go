package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// gather returns all metrics by name.
func gather(t *testing.T, n *Node) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(n); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return values
}

func TestMetrics(t *testing.T) {
	n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncAlways))
	ctx := context.Background()
	for i := range 5 {
		put(t, n, testKey(i), 1_700_000_000_000, 1)
	}
	put(t, n, testKey(0), scan.TimeMsMax+1, 1)
	if err := n.CompactAll(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Delete(ctx, &scan.Selector{Metric: "m1"}, 0, 1); err != nil {
		t.Fatal(err)
	}
	contents(t, n)
	got := gather(t, n)
	for name, want := range map[string]float64{
		"series": 5, "samples_applied_total": 5, "samples_skipped_total": 1, "flushed_samples_total": 5, "segment_samples": 5,
		"scans_total": 1, "scanned_samples_total": 5, "scanned_rollups_total": 0, "read_only": 0, "disk_full": 0, "entries_stalled": 0, "page_log_generations_max": 15,
		"shards_relic": 0, "apply_lag_entries_max": 0, "inbox_dropped_total": 0,
	} {
		if v, ok := got["tickmesh_"+name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
	for name := range got {
		if strings.HasSuffix(name, "_total") && got[name] < 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if v := gather(t, n)["tickmesh_series"]; v != 0 { // and it does not touch what is unmapped
		t.Errorf("after Close there are %v series", v)
	}
}

// TestBrokenLogIsTold fails a sync: the node says so until it is started again, and
// reads on.
func TestBrokenLogIsTold(t *testing.T) {
	mem := vfs.NewMemFS()
	o := &outage{kinds: func(k vfs.OpKind) bool { return k == vfs.OpSync }, cause: syscall.EIO, from: 1 << 40, to: 1 << 41}
	fs := vfs.Faults(mem, func(op vfs.Op) error {
		if !strings.HasPrefix(op.Name, "data/log/wal-") {
			return nil
		}
		return o.rule(op)
	})
	n := mustOpen(t, testOptions(fs, SyncAlways))
	put(t, n, testKey(1), 1, 1)
	o.seen.Store(1 << 40)
	w := &testWriter{node: n}
	w.add(testKey(1), 2, 2)
	err := w.send(context.Background())
	if !errors.Is(err, series.ErrReadOnly) || !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "data/log/wal-") {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := n.heal(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := n.Health(); !errors.Is(err, series.ErrReadOnly) {
			t.Errorf("a broken log was healed: %v", err)
		}
		if v := gather(t, n)["tickmesh_read_only"]; v != 1 {
			t.Errorf("read_only is %v", v)
		}
	}
	if got := contents(t, n); len(got) != 1 {
		t.Errorf("%v", got)
	}
	_ = n.Close() // the log is broken, which it tells
	n = mustOpen(t, testOptions(mem, SyncAlways))
	put(t, n, testKey(1), 3, 3)
	if got := contents(t, n)[string(testKey(1))]; got[1] == 0 || got[3] == 0 {
		t.Errorf("%v", got)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLogIsBounded lets checkpoints fail for long.
func TestLogIsBounded(t *testing.T) {
	var fails atomic.Bool
	fs := vfs.Faults(vfs.NewMemFS(), func(op vfs.Op) error {
		if fails.Load() && strings.HasSuffix(op.Name, "MANIFEST.new") {
			return syscall.EIO
		}
		return nil
	})
	o := testOptions(fs, SyncOff)
	o.CheckpointBytes = 1000
	n := mustOpen(t, o)
	fails.Store(true)
	var err error
	for i := 0; i < 2000 && err == nil; i++ {
		w := &testWriter{node: n}
		for j := range 10 {
			w.add(testKey(j), int64(i), float64(i))
		}
		if err = w.send(context.Background()); err == nil {
			_ = n.boundLog(n.checkpoint())
		}
	}
	if !errors.Is(err, series.ErrReadOnly) || !strings.Contains(err.Error(), "MANIFEST.new") {
		t.Fatalf("writes were not refused, or not for this: %v", err)
	}
	if got := n.logSinceCheckpoint(); got > 20*1000 {
		t.Errorf("the log has %d bytes", got)
	}
	if err := n.heal(context.Background()); err == nil || n.Health() == nil {
		t.Error("healed without a checkpoint")
	}
	fails.Store(false)
	if err := n.heal(context.Background()); err != nil || n.Health() != nil {
		t.Errorf("not healed: %v, %v", err, n.Health())
	}
	put(t, n, testKey(1), 1_000_000, 1)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}
