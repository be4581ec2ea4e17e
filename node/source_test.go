package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestNodeIsASource holds the node to the contract of scan.Source with its samples
// in hot pages, in the page log, in segments, and in merged segments.
func TestNodeIsASource(t *testing.T) {
	states := map[string]func(n *Node) error{
		"hot":     func(*Node) error { return nil },
		"sealed":  func(n *Node) error { return sealAll(n) },
		"flushed": func(n *Node) error { return flushAll(n) },
		"compacted": func(n *Node) error {
			if err := flushAll(n); err != nil {
				return err
			}
			_, err := n.engine.Compact(context.Background(), 1<<50)
			return err
		},
	}
	for name, after := range states {
		t.Run(name, func(t *testing.T) {
			scantest.RunSourceTests(t, func(t *testing.T) scantest.Subject {
				n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncOff))
				t.Cleanup(func() {
					if err := n.Close(); err != nil {
						t.Error(err)
					}
				})
				return scantest.Subject{Source: n, Deleter: n, Put: func(key series.Key, samples ...series.Sample) error {
					w := &testWriter{node: n}
					if _, _, _, err := key.Parts(nil); err != nil {
						return fmt.Errorf("put: %w", err)
					}
					for _, s := range samples {
						w.add(key, s.TimeMs, s.Value)
					}
					if err := w.send(context.Background()); err != nil {
						return err
					}
					return after(n)
				}}
			})
		})
	}
}

func sealAll(n *Node) error {
	return n.engine.Checkpoint(storage.Checkpoint{Position: n.engine.LogPosition(), Applied: make([]uint64, testShards), SealAll: true})
}

func flushAll(n *Node) error {
	if err := sealAll(n); err != nil {
		return err
	}
	return n.engine.Flush()
}
