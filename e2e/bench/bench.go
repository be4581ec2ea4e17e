package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// ErrCheck is returned when a server does not hold what was written.
var ErrCheck = errors.New("the check of the stored data failed")

// definition is one workload.
type definition struct {
	name, title, text string
	repeated          bool // run Config.Runs times
	clusters          bool // starts clusters, for which only TickMesh has a target
	run               func(ctx context.Context, b *bench, target target.Target) error
}

// bench is the state of one invocation.
type bench struct {
	config  Config
	results *Results
	name    string // of the running workload
	target  string
}

// takesLines reports whether the target takes the protocols of the other workloads.
func takesLines(t target.Target) bool { return slices.ContainsFunc(target.Protocols(), t.Speaks) }

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(b.config.Log, format+"\n", args...)
}

func (b *bench) note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if !slices.Contains(b.results.Notes, note) {
		b.results.Notes = append(b.results.Notes, note)
		b.logf("note: %s", note)
	}
}

// higher and lower record a figure of which more, or less, is better.
func (b *bench) higher(which, name, unit string, value float64) {
	b.record(which, name, unit, false, value)
}

func (b *bench) lower(which, name, unit string, value float64) {
	b.record(which, name, unit, true, value)
}

func (b *bench) record(which, name, unit string, lower bool, value float64) {
	b.logf("  %-30s %-28s %12s %s", which, name, short(value), unit)
	b.results.add(Measure{Workload: b.name, Case: which, Name: name, Unit: unit, Lower: lower, Target: b.target}, value)
}

// folder makes an empty folder for a server; remove deletes it.
func (b *bench) folder() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(b.config.Dir, "bench-"+b.target+"-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// with runs a server on an empty folder during f.
func (b *bench) with(ctx context.Context, t target.Target, group *harness.MemoryGroup, limitBytes int64, f func(server *target.Server) error) error {
	dir, remove, err := b.folder()
	if err != nil {
		return err
	}
	defer remove()
	server, err := target.Start(ctx, t, target.Options{
		Dir: dir, CPUs: b.config.ServerCPUs, Group: group, MemoryLimitBytes: limitBytes,
	}, true)
	if err != nil {
		return err
	}
	defer func() { server.Kill() }()
	if err := f(server); err != nil {
		if server.Exited() {
			return fmt.Errorf("%w\nthe server has ended: %v\nlast output:\n%s", err, server.Err(), server.LogTail(2048))
		}
		return err
	}
	return nil
}

// withCluster runs a cluster on empty folders during f.
func (b *bench) withCluster(ctx context.Context, t target.TickMesh, nodes, replication int, f func(c *target.Cluster) error) error {
	dir, remove, err := b.folder()
	if err != nil {
		return err
	}
	defer remove()
	c, err := target.StartCluster(ctx, t, target.ClusterOptions{
		Dir: dir, CPUs: b.config.ServerCPUs, Nodes: nodes, Replication: replication, Shards: clusterShards,
	})
	if err != nil {
		return err
	}
	defer c.Kill()
	return c.Err(f(c))
}

// clustered returns the target if it is one that has clusters here.
func (b *bench) clustered(t target.Target) (target.TickMesh, bool) {
	tickmesh, ok := t.(target.TickMesh)
	if !ok {
		b.note("%s: clusters of it are not measured", t.Name())
	}
	return tickmesh, ok
}

// asker answers queries: a target.Server.
type asker interface {
	Ask(ctx context.Context, q target.Query) (target.Answer, error)
}

// check asks and compares.
func check(ctx context.Context, server asker, q target.Query, want target.Answer) error {
	got, err := server.Ask(ctx, q)
	if err != nil {
		return err
	}
	if got.Points != want.Points || !(math.Abs(got.Value-want.Value) <= 1e-9*math.Max(1, math.Abs(want.Value))) { // NaN is wrong, too
		return fmt.Errorf("%w: query %+v gives %+v, want %+v", ErrCheck, q, got, want)
	}
	return nil
}
