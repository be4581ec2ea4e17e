package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestEveryFailpoint makes each place fail, at its first, second and a later pass,
// in the middle of work, and then kills the process: what was answered is there.
func TestEveryFailpoint(t *testing.T) {
	for i, name := range Failpoints() {
		if slices.Contains(slices.Concat(transfer.MovementFailpoints(), transfer.RepairFailpoints(), index.HoleFailpoints()), name) {
			continue // a node alone, with so few series, does not pass them: node/storage and index test them
		}
		t.Run(strings.ReplaceAll(name, "/", ":"), func(t *testing.T) {
			t.Parallel()
			hits := int64(0)
			for pass, action := range []string{"error@1", "error@4", "error"} {
				hits += failAt(t, name, action, uint64(3*i+pass))
			}
			if hits == 0 {
				t.Errorf("%s is never passed", name)
			}
		})
	}
}

// failAt runs steps with a place that fails, over three lives of the node, and
// returns how often the place was passed.
func failAt(t *testing.T, name, action string, seed uint64) (hits int64) {
	set, err := failpoint.Parse(name+"="+action, Failpoints())
	if err != nil {
		t.Fatal(err)
	}
	mem := vfs.NewMemFS()
	clock := time.UnixMilli(1_700_000_000_000)
	options := func(set *failpoint.Set) Options {
		o := testOptions(mem, SyncAlways)
		o.Failpoints, o.LogFileBytes = set, 8<<10
		o.Retention = 90 * 24 * time.Hour // nothing of the run expires until the end
		o.Clock = func() time.Time { return clock }
		return o
	}
	r := newRun(seed)
	for life := range 3 {
		failing := options(set)
		if r.node, err = Open(failing); err != nil {
			r.node = mustOpen(t, options(nil)) // it failed at the start, and does not do so twice
		}
		for range 25 {
			r.step()
			_ = r.heal()
		}
		if life == 2 {
			expire(r)
		}
		r.mustHold(t, fmt.Sprintf("%s=%s, life %d", name, action, life))
		after := mem.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
		_ = r.node.Close()
		mem = after
	}
	r.node = mustOpen(t, options(nil))
	r.mustHold(t, name+"="+action+", at the end")
	if err := r.node.Close(); err != nil {
		t.Fatal(err)
	}
	return set.Hits(name)
}

// expire runs the retention, once with nothing to drop and once with all.
func expire(r *run) {
	for _, cutMs := range []int64{r.now - 80*24*3600_000, r.now + 40*24*3600_000} {
		err := r.node.cut(r.ctx(), &retentionPlan{wholeMs: cutMs})
		r.oracle.cut(cutMs, err)
		if err != nil {
			r.errs = append(r.errs, err)
			continue
		}
		for range 2 { // the first one may fail, or drop only what is flushed
			if err := r.node.engine.Retain(); err != nil {
				r.errs = append(r.errs, err)
			}
			if err := r.node.checkpoint(); err != nil {
				r.errs = append(r.errs, err)
			}
		}
	}
}
