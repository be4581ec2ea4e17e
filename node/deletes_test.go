package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// TestDeleteNeedsTheLeader asks all nodes of a cluster to delete, among them those that
// lag behind and one that does not know yet that it leads no more: a delete that is
// answered has hidden what was answered before it.
func TestDeleteNeedsTheLeader(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	names := []string{"a", "b", "d"}
	for _, name := range names {
		c.open(name)
	}
	c.create(roles2(), names...)
	const at = 1_700_000_000_000
	key := testKey(1)
	shard := key.Shard(testShards)
	leader := ""
	c.write(key, at, 1, series.BatchID{Session: 7, Counter: 1})
	c.await("a leader", func() bool {
		for _, name := range names {
			if c.reach("", name).loop.groups[shard].leads.Load() {
				leader = name
			}
		}
		return leader != ""
	})
	selector := scan.Selector{MetricAny: true, Shards: []uint16{shard}}
	remove := func(name string, selector *scan.Selector) (int64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		return c.reach("", name).Delete(ctx, selector, at, at)
	}
	beyond := scan.Selector{MetricAny: true, Shards: []uint16{testShards}}
	for _, name := range names {
		if _, err := remove(name, &beyond); !errors.Is(err, series.ErrBatch) {
			t.Fatalf("a shard that does not exist: %v", err)
		}
		if name == leader {
			continue
		}
		if touched, err := remove(name, &selector); !errors.Is(err, series.ErrUnavailable) || touched > 0 {
			t.Fatalf("a follower deletes: %d, %v", touched, err)
		}
		if _, err := remove(name, &scan.Selector{MetricAny: true}); !errors.Is(err, series.ErrUnavailable) {
			t.Fatalf("a follower deletes from all shards: %v", err)
		}
		c.cutLink(leader, name, true)
		c.cutLink(name, leader, true)
	}
	// The others go on; the old leader cannot know of the new series.
	number := 2
	for testKey(number).Shard(testShards) != shard {
		number++
	}
	newKey := testKey(number)
	deposed := c.reach("", leader)
	c.mu.Lock()
	delete(c.mu.nodes, leader)
	c.mu.Unlock()
	c.write(newKey, at, 2, series.BatchID{Session: 7, Counter: 2})
	c.mu.Lock()
	c.mu.nodes[leader] = deposed
	c.mu.Unlock()
	newOnly := selector
	newOnly.Matchers = []scan.Matcher{{Name: "host", Kind: scan.MatchEqual, Values: []string{fmt.Sprintf("h%d", number)}}}
	if touched, err := remove(leader, &newOnly); !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("a leader that was deposed deletes: %d, %v", touched, err)
	}
	c.joinLinks()
	c.await("a delete", func() bool {
		for _, name := range names {
			touched, err := remove(name, &selector)
			if err == nil && touched != 2 {
				t.Fatalf("%d series touched", touched)
			}
			if err == nil {
				return true
			}
		}
		return false
	})
	for _, key := range []series.Key{key, newKey} {
		if _, still := c.read()[fmt.Sprintf("%s@%d", key, at)]; still {
			t.Errorf("%s is still there", key)
		}
	}
}
