package server

import (
	"context"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/influxql"
)

// auditedDeleter notes deletes for the audit log.
type auditedDeleter struct{ scan.Deleter }

// Delete implements scan.Deleter.
func (d auditedDeleter) Delete(ctx context.Context, selector *scan.Selector, fromMs, toMs int64) (int64, error) {
	touched, err := d.Deleter.Delete(ctx, selector, fromMs, toMs)
	metric := selector.Metric
	if selector.MetricAny {
		metric = access.Everything
	}
	audit.Of(ctx).Did(audit.Deed{Do: "delete", On: metric, Database: access.Display(access.Canonical(selector.Database))}, err)
	return touched, err
}

// auditedDatabases notes what is made and dropped for the audit log.
type auditedDatabases struct{ influxql.Databases }

// Create implements influxql.Databases.
func (d auditedDatabases) Create(ctx context.Context, name string) error {
	err := d.Databases.Create(ctx, name)
	audit.Of(ctx).Did(audit.Deed{Do: "create database", Database: access.Display(access.Canonical(name))}, err)
	return err
}

// Drop implements influxql.Databases.
func (d auditedDatabases) Drop(ctx context.Context, name string) error {
	err := d.Databases.Drop(ctx, name)
	audit.Of(ctx).Did(audit.Deed{Do: "drop database", Database: access.Display(access.Canonical(name))}, err)
	return err
}

// auditedSource notes reads of all samples of all metrics for the audit log.
type auditedSource struct{ scan.Source }

// Between implements scan.Dated, where what is below does.
func (s auditedSource) Between(fromMs, toMs int64) scan.Source {
	return auditedSource{scan.Between(s.Source, fromMs, toMs)}
}

// Scan implements scan.Source.
func (s auditedSource) Scan(ctx context.Context, r *scan.Request, visit scan.Visitor) error {
	err := s.Source.Scan(ctx, r, visit)
	if r.MetricAny && len(r.Matchers) == 0 {
		audit.Of(ctx).Did(audit.Deed{Do: "read everything", Database: access.Display(access.Canonical(r.Database))}, err)
	}
	return err
}
