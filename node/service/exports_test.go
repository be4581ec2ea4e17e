package service

import (
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// clock is moved by the test.
type clock struct{ now time.Time }

func openService(t *testing.T) (*Service, *clock) {
	t.Helper()
	c := &clock{time.Unix(1_700_000_000, 0)}
	n, err := node.Open(node.Options{
		FS: vfs.NewMemFS(), DataDir: "/data", Shards: 4, Sync: node.SyncOff, LogFileBytes: 64 << 10, ExtentBytes: 1 << 20,
		Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Node: n, Now: func() time.Time { return c.now }, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), n.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

func mustOpenExport(t *testing.T, s *Service, id string) *rpc.Export {
	t.Helper()
	x, err := s.OpenExport(t.Context(), 1, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func closeExport(t *testing.T, x *rpc.Export) {
	t.Helper()
	if err := x.Bytes.Close(); err != nil {
		t.Fatal(err)
	}
}

// A node that is rebuilt fetches one shard after the other, many more than may be
// open at once, and no time passes.
func TestExportsThatWereReadMakeRoom(t *testing.T) {
	s, _ := openService(t)
	for range 3 * exportsMax {
		x := mustOpenExport(t, s, "")
		if n, err := io.Copy(io.Discard, x.Bytes); err != nil || n != x.TotalBytes {
			t.Fatalf("%d of %d bytes, %v", n, x.TotalBytes, err)
		}
		closeExport(t, x)
	}
	if n := len(s.exports.mu.byID); n != 0 {
		t.Fatalf("%d exports are kept open", n)
	}
}

func TestExportsThatWereNotReadWaitForTheirReaders(t *testing.T) {
	s, c := openService(t)
	var exports []*rpc.Export
	for range exportsMax {
		x := mustOpenExport(t, s, "")
		closeExport(t, x)
		exports = append(exports, x)
	}
	if _, err := s.OpenExport(t.Context(), 1, "", 0); !errors.Is(err, series.ErrOverloaded) {
		t.Fatalf("one more than may be open: %v", err)
	}
	reader := mustOpenExport(t, s, exports[0].ID) // comes back
	c.now = c.now.Add(exportYields)
	x := mustOpenExport(t, s, "")
	closeExport(t, x)
	if _, err := s.OpenExport(t.Context(), 1, exports[1].ID, 0); !errors.Is(err, wire.ErrNotFound) {
		t.Fatalf("an export without a reader has kept its place: %v", err)
	}
	if n, err := io.Copy(io.Discard, reader.Bytes); err != nil || n != reader.TotalBytes {
		t.Fatalf("an export with a reader: %d of %d bytes, %v", n, reader.TotalBytes, err)
	}
	closeExport(t, reader)
	c.now = c.now.Add(exportIdleMax)
	closeExport(t, mustOpenExport(t, s, ""))
	if _, err := s.OpenExport(t.Context(), 1, x.ID, 0); !errors.Is(err, wire.ErrNotFound) {
		t.Fatalf("an export is kept for ever: %v", err)
	}
}

// An export that nobody comes back for is let go, though nothing else happens: it pins
// files that merges have given up.
func TestExportsEndByThemselves(t *testing.T) {
	s, _ := openService(t)
	s.exports.idleMax, s.exports.now = time.Millisecond, time.Now
	closeExport(t, mustOpenExport(t, s, ""))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.exports.mu.Lock()
		open := len(s.exports.mu.byID)
		s.exports.mu.Unlock()
		if open == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d exports are kept open", open)
		}
	}
}
