package influxql

import (
	"net/url"
	"slices"
	"testing"
	"time"
)

// TestRetentionPolicies holds that a statement is a success only where what it wants holds already.
func TestRetentionPolicies(t *testing.T) {
	d := &directory{names: []string{"db0", "ever", "unknown"}}
	h := New(Options{Source: stored(t, changeLines), Databases: d, Retention: func(name string) (time.Duration, bool) {
		return map[string]time.Duration{"db0": 30 * 24 * time.Hour, "new": 48 * time.Hour}[name], name != "unknown"
	}})
	other := func(name, kept, wanted string) string {
		return `database \"` + name + `\" is kept for ` + kept + `, not for ` + wanted + `: set its retention in the file of --databases-file, or that of all by --retention, then repeat the statement`
	}
	const (
		unknown = `how long database \"unknown\" is kept is not known here, as nodes have a --retention of their own: set its retention to 0 (for ever) in the file of --databases-file, then repeat the statement`
		limits  = `PAST LIMIT and FUTURE LIMIT are not supported: leave them out`
		shards  = `SHARD DURATION means nothing here, as shards are no stretches of time: leave it out`
		dropped = `retention policies cannot be dropped: each database has one, \"autogen\", that goes with it (DROP DATABASE)`
	)
	for _, c := range [][2]string{
		{`CREATE RETENTION POLICY "a month" ON db0 DURATION 30d REPLICATION 1 DEFAULT`, ""},
		{"CREATE RETENTION POLICY month ON db0 DURATION 720h REPLICATION 1", ""},
		{"CREATE RETENTION POLICY week ON db0 DURATION 1w REPLICATION 1", other("db0", "30d", "1w")},
		{"CREATE RETENTION POLICY ever ON db0 DURATION INF REPLICATION 1", other("db0", "30d", "0 (for ever)")},
		{"CREATE RETENTION POLICY ever ON ever DURATION INF REPLICATION 1", ""},
		{"CREATE RETENTION POLICY day ON ever DURATION 1d REPLICATION 1", other("ever", "0 (for ever)", "1d")},
		{"CREATE RETENTION POLICY ever ON unknown DURATION INF REPLICATION 1", unknown},
		{"CREATE RETENTION POLICY month ON nosuch DURATION 30d REPLICATION 1", "database not found: nosuch"},
		{"CREATE RETENTION POLICY month ON db0 DURATION 30d REPLICATION 3", "REPLICATION 3 is not what statements decide: copies are those of the cluster's shards; leave it out, or say 1"},
		{"CREATE RETENTION POLICY month ON db0 DURATION 30d REPLICATION 1 SHARD DURATION 1d", shards},
		{"ALTER RETENTION POLICY autogen ON db0 DURATION 30d", ""},
		{"ALTER RETENTION POLICY autogen ON db0 DEFAULT", ""},
		{"ALTER RETENTION POLICY autogen ON db0 DURATION 2d", other("db0", "30d", "2d")},
		{"ALTER RETENTION POLICY autogen ON db0 PAST LIMIT 1h", limits},
		{"DROP RETENTION POLICY autogen ON db0", dropped},
		{"CREATE DATABASE other WITH DURATION 2d REPLICATION 1 NAME two", other("other", "0 (for ever)", "2d")},
		{"CREATE DATABASE new WITH DURATION 2d REPLICATION 1 NAME two", ""},
		{"CREATE DATABASE new WITH FUTURE LIMIT 1h", limits},
	} {
		want := `{"results":[{"statement_id":0}]}` + "\n"
		if c[1] != "" {
			want = `{"results":[{"statement_id":0,"error":"` + c[1] + `"}]}` + "\n"
		}
		if got := bodyOf(t, post(h, "/query", "", url.Values{"q": {c[0]}}.Encode())); got != want {
			t.Errorf("%s: %swant %s", c[0], got, want)
		}
	}
	if want := []string{"db0", "ever", "new", "unknown"}; !slices.Equal(d.names, want) {
		t.Errorf("databases are %q", d.names)
	}
}
