package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

const smallCluster = "small"

// fullVolume fills the disk of one node of three: its shards are served by others, the cluster says which node it is, and all goes on
// when there is room.
func (s *stage) fullVolume() {
	var machine string
	s.phase("a cluster on small disks", func(ctx context.Context) error {
		spec := "  routers: {count: 1}\n  envoy: {enabled: false}\n"
		manifest := strings.Replace(neighbour(smallCluster, spec), "nodes: {count: 1,", "nodes: {count: 3, storage: {size: 400Mi, storageClassName: "+lab.SmallClass+"},", 1)
		manifest = strings.Replace(manifest, "replication: 1", "replication: 2", 1)
		if err := s.applyIn(ctx, namespace, manifest); err != nil {
			return err
		}
		if err := errors.Join(s.available(ctx, namespace, smallCluster), s.podReady(ctx, smallCluster+"-node-0")); err != nil {
			return err
		}
		var err error
		machine, err = s.machineOf(ctx, smallCluster+"-node-0")
		return err
	})
	degraded := func(ctx context.Context) (string, error) {
		return s.kubectl(ctx, "get", "tmc/"+smallCluster, `--output=jsonpath={.status.conditions[?(@.type=="Degraded")].reason} {.status.conditions[?(@.type=="Degraded")].message}`)
	}
	s.phase("the disk of one is full: writes go on, and it is told", func(ctx context.Context) error {
		if err := s.rack.Fill(ctx, machine); err != nil {
			return err
		}
		longest, err := s.pressure(ctx, func() (bool, error) {
			text, err := degraded(ctx)
			return strings.HasPrefix(text, "NodeTakesNoWrites node "+smallCluster+"-node-0 takes no writes"), err
		})
		fmt.Printf("  longest time without an answer that a write was taken: %s\n", longest.Round(time.Millisecond))
		if allowed := s.bounds.pause; err == nil && longest > allowed {
			err = fmt.Errorf("no write was taken for %s, and may be for %s at most", longest, allowed)
		}
		return err
	})
	s.phase("there is room again: nothing is broken", func(ctx context.Context) error {
		if err := s.rack.Free(ctx, machine); err != nil {
			return err
		}
		if err := lab.Wait(ctx, func() (bool, error) {
			text, err := degraded(ctx)
			if err == nil && !strings.HasPrefix(text, "AsExpected") {
				err = fmt.Errorf("still degraded: %s", text)
			}
			return err == nil, err
		}); err != nil {
			return err
		}
		return s.deleteNeighbour(ctx, smallCluster)
	})
}

// pressure writes to the cluster on small disks until a condition holds, which it looks at once a second. It returns the longest time
// in which no write was taken.
func (s *stage) pressure(ctx context.Context, until func() (bool, error)) (longest time.Duration, err error) {
	const series, batch = 5000, 10_000
	url := fmt.Sprintf("http://%s.%s.svc.cluster.local:%d/write?precision=s", smallCluster, namespace, portHTTP)
	c, last := client(s.rack), time.Now()
	looked := last
	for n := 0; ; n += batch {
		var body strings.Builder
		for i := n; i < n+batch; i++ {
			fmt.Fprintf(&body, "pressure,series=%d value=%v %d\n", i%series, s.random.Float64(), 1_700_000_000+i/series)
		}
		for {
			failed := postOnce(ctx, c, url, body.String())
			longest = max(longest, time.Since(last))
			if failed == nil {
				last = time.Now()
				break
			}
			select {
			case <-ctx.Done():
				return longest, errors.Join(ctx.Err(), failed)
			case <-time.After(50 * time.Millisecond):
			}
		}
		if time.Since(looked) < time.Second {
			continue
		}
		looked = time.Now()
		if done, err := until(); done || ctx.Err() != nil {
			return longest, errors.Join(ctx.Err(), err)
		}
		last = last.Add(time.Since(looked)) // nobody wrote meanwhile
	}
}
