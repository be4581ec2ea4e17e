package influxql

import (
	"errors"
	"fmt"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
)

// policyName is the one retention policy of each database, InfluxDB's default one.
const policyName = "autogen"

// policy is what a statement wants of a retention policy; nil or 0: nothing is said.
type policy struct {
	duration      *time.Duration // 0: for ever
	replication   *int
	shardDuration time.Duration
	past, future  time.Duration // limits of writes
}

// changePolicy runs a statement that makes, changes or drops a retention policy. None of them does anything: what is so
// already is a success, all else is refused.
func (x *execution) changePolicy(statement ql.Statement) error {
	switch s := statement.(type) {
	case *ql.CreateRetentionPolicyStatement:
		return x.checkPolicy(s.Database, &policy{&s.Duration, &s.Replication, s.ShardGroupDuration, s.PastWriteLimit, s.FutureWriteLimit})
	case *ql.AlterRetentionPolicyStatement:
		return x.checkPolicy(s.Database, &policy{s.Duration, s.Replication, orZero(s.ShardGroupDuration), orZero(s.PastWriteLimit), orZero(s.FutureWriteLimit)})
	}
	return fmt.Errorf("retention policies cannot be dropped: each database has one, %q, that goes with it (DROP DATABASE)", policyName)
}

func orZero(d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return *d
}

// checkPolicy checks that the one policy of a database that there is is what is wanted, whatever it is called: names of
// policies are not looked at in writes and queries either.
func (x *execution) checkPolicy(name string, wanted *policy) error {
	database := x.on(name)
	if err := x.checkDatabase(database); err != nil {
		return err
	}
	return x.isKept(database, wanted)
}

// isKept returns why a policy is not what holds for a database, there or not, and the setting that would change it.
func (x *execution) isKept(database string, wanted *policy) error {
	switch {
	case wanted.replication != nil && *wanted.replication != 1:
		return fmt.Errorf("REPLICATION %d is not what statements decide: copies are those of the cluster's shards; leave it out, or say 1", *wanted.replication)
	case wanted.shardDuration != 0:
		return errors.New("SHARD DURATION means nothing here, as shards are no stretches of time: leave it out")
	case wanted.past != 0 || wanted.future != 0:
		return errors.New("PAST LIMIT and FUTURE LIMIT are not supported: leave them out")
	case wanted.duration == nil:
		return nil
	}
	kept, known := x.keptFor(database)
	switch {
	case !known:
		return fmt.Errorf("how long database %q is kept is not known here, as nodes have a --retention of their own: set its retention to %s in the file of --databases-file, then repeat the statement",
			access.Display(database), inWords(*wanted.duration))
	case kept != *wanted.duration:
		return fmt.Errorf("database %q is kept for %s, not for %s: set its retention in the file of --databases-file, or that of all by --retention, then repeat the statement",
			access.Display(database), inWords(kept), inWords(*wanted.duration))
	}
	return nil
}

// keptFor returns how long samples of a database are kept, 0 for ever, and whether that is known.
func (x *execution) keptFor(database string) (kept time.Duration, known bool) {
	if x.retention == nil {
		return 0, false
	}
	return x.retention(database)
}

// inWords returns a duration as the file of databases has it.
func inWords(kept time.Duration) string {
	if kept == 0 {
		return "0 (for ever)"
	}
	return ql.FormatDuration(kept)
}
