package influxql

import (
	"fmt"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// policyName is the one retention policy of each database, InfluxDB's default one. How long it keeps samples is set where the
// server is started, so that a statement which asks for just that is a success, and any other is refused rather than not kept to.
const policyName = "autogen"

// policy is what a statement asks for; nil: it says nothing of that.
type policy struct {
	name         string
	kept         *time.Duration // 0: for ever
	future, past *time.Duration // how far from now times of writes may be
}

// checkPolicy returns an error unless the policy of a database is what a statement asks for.
func (x *execution) checkPolicy(database string, asked policy) error {
	kept := x.retentionOf(database)
	limited := func(d *time.Duration) bool { return d != nil && *d != 0 }
	if asked.name == policyName && (asked.kept == nil || *asked.kept == kept) && !limited(asked.future) && !limited(asked.past) {
		return nil
	}
	return fmt.Errorf("retention policies cannot be changed by statements: the database has one, %q, which keeps samples for %s; "+
		"how long is set by --retention, and for one database in the file of --databases-file", policyName, keptFor(kept))
}

// createPolicy answers CREATE RETENTION POLICY.
func (x *execution) createPolicy(s *ql.CreateRetentionPolicyStatement) error {
	database := x.on(s.Database)
	if err := x.checkDatabase(database); err != nil {
		return err
	}
	return x.checkPolicy(database, policy{s.Name, &s.Duration, &s.FutureWriteLimit, &s.PastWriteLimit})
}

// alterPolicy answers ALTER RETENTION POLICY.
func (x *execution) alterPolicy(s *ql.AlterRetentionPolicyStatement) error {
	database := x.on(s.Database)
	if err := x.checkDatabase(database); err != nil {
		return err
	}
	return x.checkPolicy(database, policy{s.Name, s.Duration, s.FutureWriteLimit, s.PastWriteLimit})
}

// dropPolicy answers DROP RETENTION POLICY, which is a success where there is no such one, as in InfluxDB.
func (x *execution) dropPolicy(s *ql.DropRetentionPolicyStatement) error {
	if s.Name != policyName {
		return nil
	}
	return fmt.Errorf("the retention policy %q is the only one of its database and cannot be dropped", policyName)
}

func (x *execution) showPolicies(s *ql.ShowRetentionPoliciesStatement, out answer.Sink) error {
	database := x.on(s.Database)
	if err := x.checkDatabase(database); err != nil {
		return err
	}
	row := []answer.Value{answer.String(policyName), answer.String(x.retentionOf(database).String()), answer.String("168h0m0s"), answer.Integer(1), answer.Boolean(true)}
	return listAll(out, &answer.Head{Columns: []string{"name", "duration", "shardGroupDuration", "replicaN", "default"}}, [][]answer.Value{row})
}
