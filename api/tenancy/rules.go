package tenancy

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Unlimited, in a Limits or as a retention, means that there is no bound, or no end.
const Unlimited = -1

// Limits bound one database. In each field 0 means that the rules say nothing, and Unlimited
// that there is no bound of the database's own. The process's own settings hold beside them.
type Limits struct {
	SeriesMax           int64 // series
	SeriesPerSecondMax  int64 // new series a second
	SamplesPerSecondMax int64 // samples a second, through each router
	Query               QueryLimits
}

// QueryLimits bound the queries of one database, with 0 and Unlimited as in Limits.
type QueryLimits struct {
	SeriesMax   int64 // that one query reads
	SamplesMax  int64 // that one query reads
	MemoryBytes int64 // of one query
	RunningMax  int64 // queries at once, in each router
}

// Rules are all rules of a cluster. They do not change. The zero value, and nil, say nothing.
type Rules struct {
	defaults  settings
	databases map[string]settings
	retention []retentionRule
}

// settings are those of a file for one database, or for all others.
type settings struct {
	retention time.Duration // 0: not said; Unlimited: for ever
	raw       time.Duration // as retention
	limits    Limits
}

// retentionRule is for the metrics that match.
type retentionRule struct {
	database, metric pattern
	retention        time.Duration
	raw              time.Duration
}

// Databases returns the names of the databases that the rules name, sorted. Patterns of
// retention rules name none.
func (r *Rules) Databases() []string {
	if r == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(r.databases))
}

// RetentionOf returns how long samples of a metric are kept: by the first retention rule that
// matches, else by the database's own setting, else by the one of all databases. 0: nothing
// is said, and the node's --retention holds. Unlimited: for ever.
func (r *Rules) RetentionOf(database, metric string) time.Duration {
	if r == nil {
		return 0
	}
	for i := range r.retention {
		rule := &r.retention[i]
		if rule.database.matches(display(database)) && rule.metric.matches(metric) {
			return rule.retention
		}
	}
	if own := r.databases[database].retention; own != 0 {
		return own
	}
	return r.defaults.retention
}

// RetentionRule describes how long the samples of series are kept whose database and metric match.
type RetentionRule struct {
	// Database and Metric are expressions (RE2), anchored at both ends. For Database the
	// default database is called "default".
	Database, Metric string
	Retention        time.Duration // Unlimited: for ever
}

// RawRules is RetentionRules of how long all samples are kept. Of older ones the last of each hour is, beside rollups of
// hours and days that tell of all.
func (r *Rules) RawRules() []RetentionRule {
	if !r.SaysRaw() {
		return nil
	}
	return r.list(func(s *settings) time.Duration { return s.raw }, func(rule *retentionRule) time.Duration { return cmp.Or(rule.raw, Unlimited) })
}

// RawOf is RetentionOf of how long all samples are kept. 0 and Unlimited: as long as any.
func (r *Rules) RawOf(database, metric string) time.Duration {
	if r == nil {
		return 0
	}
	for i := range r.retention {
		rule := &r.retention[i]
		if rule.database.matches(display(database)) && rule.metric.matches(metric) {
			return rule.raw
		}
	}
	return cmp.Or(r.databases[database].raw, r.defaults.raw)
}

// RawFrom returns since when all samples of a metric are kept at a time: the start of a day (UTC). All: they are kept as long
// as any.
func (r *Rules) RawFrom(database, metric string, now time.Time) (from time.Time, all bool) {
	raw := r.RawOf(database, metric)
	if raw <= 0 {
		return time.Time{}, true
	}
	return now.Add(-raw).UTC().Truncate(24 * time.Hour), false
}

// SaysRaw reports whether the rules name any time for which all samples are kept.
func (r *Rules) SaysRaw() bool {
	return r != nil && (r.defaults.raw != 0 ||
		slices.ContainsFunc(r.retention, func(rule retentionRule) bool { return rule.raw != 0 }) ||
		slices.ContainsFunc(slices.Collect(maps.Values(r.databases)), func(s settings) bool { return s.raw != 0 }))
}

// RetentionRules returns all that the rules say of retention as one list, of which the first
// rule that matches a series holds: rules of metrics, then databases, then the default of
// all, if there is one. What none matches is left to the node's --retention.
func (r *Rules) RetentionRules() []RetentionRule {
	if !r.SaysRetention() {
		return nil
	}
	return r.list(func(s *settings) time.Duration { return s.retention }, func(rule *retentionRule) time.Duration { return rule.retention })
}

// list returns what the rules say in their order.
func (r *Rules) list(ofDatabase func(*settings) time.Duration, ofRule func(*retentionRule) time.Duration) (list []RetentionRule) {
	for i := range r.retention {
		rule := &r.retention[i]
		list = append(list, RetentionRule{Database: rule.database.expression.String(), Metric: rule.metric.expression.String(), Retention: ofRule(rule)})
	}
	for _, name := range r.Databases() {
		of := r.databases[name]
		if own := ofDatabase(&of); own != 0 {
			list = append(list, RetentionRule{Database: exactly(display(name)).expression.String(), Metric: everything().expression.String(), Retention: own})
		}
	}
	if all := ofDatabase(&r.defaults); all != 0 {
		list = append(list, RetentionRule{Database: everything().expression.String(), Metric: everything().expression.String(), Retention: all})
	}
	return list
}

// HasMetricRules reports whether the retention of some metric of a database may differ from
// that of the others, so that RetentionOf has to be asked for each.
func (r *Rules) HasMetricRules(database string) bool {
	return r != nil && slices.ContainsFunc(r.retention, func(rule retentionRule) bool { return rule.database.matches(display(database)) })
}

// SaysRetention reports whether the rules name any retention.
func (r *Rules) SaysRetention() bool {
	return r != nil && (len(r.retention) > 0 || r.defaults.retention != 0 ||
		slices.ContainsFunc(slices.Collect(maps.Values(r.databases)), func(s settings) bool { return s.retention != 0 }))
}

// LimitsOf returns the bounds of a database: each by its own setting, else by the one of all
// databases.
func (r *Rules) LimitsOf(database string) Limits {
	if r == nil {
		return Limits{}
	}
	own, all := r.databases[database].limits, r.defaults.limits
	return Limits{
		SeriesMax:           said(own.SeriesMax, all.SeriesMax),
		SeriesPerSecondMax:  said(own.SeriesPerSecondMax, all.SeriesPerSecondMax),
		SamplesPerSecondMax: said(own.SamplesPerSecondMax, all.SamplesPerSecondMax),
		Query: QueryLimits{
			SeriesMax:   said(own.Query.SeriesMax, all.Query.SeriesMax),
			SamplesMax:  said(own.Query.SamplesMax, all.Query.SamplesMax),
			MemoryBytes: said(own.Query.MemoryBytes, all.Query.MemoryBytes),
			RunningMax:  said(own.Query.RunningMax, all.Query.RunningMax),
		},
	}
}

// said returns the first of two settings if it is set, and otherwise the second.
func said(own, all int64) int64 {
	if own != 0 {
		return own
	}
	return all
}

const defaultName = "default"

// display returns the name that files have for a database.
func display(database string) string {
	if database == "" {
		return defaultName
	}
	return database
}

// canonical returns the database of a name in a file.
func canonical(name string) string {
	if name == defaultName {
		return ""
	}
	return name
}
