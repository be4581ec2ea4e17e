package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/report"
)

// Cluster makes one pass over a cluster: it looks, decides, makes the changes that can
// be made now, and writes the status. Errors are in the status, too; conflicts are no
// errors: what was decided is decided anew on what is there now.
func Cluster(ctx context.Context, s *Scope, m *Memory, c *v1alpha1.TickMeshCluster) (Result, error) {
	if acts, err := s.acts(ctx, m, c); err != nil || !acts {
		return Result{After: intervalIdle}, err
	}
	if c.DeletionTimestamp != nil {
		return finish(ctx, s, m, c)
	}
	p, err := newPass(ctx, s, m, c)
	if err == nil {
		err = errors.Join(p.nameStore(ctx), p.noteBootstrap(ctx), p.checkRebuild(ctx))
	}
	if err != nil {
		return Result{}, fmt.Errorf("observe: %w", err) // nothing can be said of the cluster
	}
	if c.Spec.Paused {
		p.templates.turn.done() // others need not wait until it goes on
	}
	for _, step := range p.steps() {
		if !p.takes(step) {
			continue
		}
		if err := step.run(ctx); err != nil {
			p.failures = append(p.failures, report.Failure{Step: step.name, Err: err})
		}
	}
	if err := errors.Join(p.writeStatus(ctx), problem(p.failures)); err != nil {
		return Result{}, err
	}
	if report.Busy(c, &p.nodes.known) {
		return Result{After: intervalBusy}, nil
	}
	return Result{After: intervalIdle}, nil
}

// problem is the error of a pass; nil: none. It is a conflict only if nothing else failed.
func problem(failures []report.Failure) error {
	told := broken(failures)
	if len(told) == 0 {
		told = failures[:min(1, len(failures))]
	}
	return report.Join(told)
}
