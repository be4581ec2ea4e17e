package tenancy

import (
	"errors"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of a file.
const (
	databasesMax      = 10_000
	retentionRulesMax = 1_000 // with those that databases' own retention, and the default, are
	// retentionBytesMax bounds the expressions of RetentionRules together: the list goes
	// into the log of each shard whenever a cut moves on, and into manifests.
	retentionBytesMax = 64 << 10
	// RetentionMin is the shortest retention: that of nodes, which drop whole partitions.
	RetentionMin = time.Hour
	// RawMin is the shortest time for which all samples are kept, as they go by days.
	RawMin = 24 * time.Hour
	// rawRetentionMin is the shortest retention of what is kept as rollups: files of less than a day have none of
	// days, and with less retention there are no others.
	rawRetentionMin = 10 * 24 * time.Hour
)

// Parse reads the text of a file of rules; the name is for messages. Errors:
// rulefile.ErrFile, with all problems of the file.
func Parse(name string, text []byte) (*Rules, error) {
	top, err := rulefile.Parse(name, text)
	if err != nil {
		return nil, err
	}
	r := &Rules{databases: map[string]settings{}}
	err = top.Fields(map[string]func(rulefile.Value) error{
		"databases":       r.readDatabases,
		"defaults":        func(v rulefile.Value) error { return r.defaults.read(v) },
		"retention-rules": r.readRetention,
	})
	if err != nil {
		return nil, err
	}
	if err := r.checkRetention(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", rulefile.ErrFile, name, err)
	}
	return r, nil
}

// checkRetention bounds the lists of all that is said of retention, and of raw.
func (r *Rules) checkRetention() error {
	return errors.Join(checkList("retention", r.RetentionRules()), checkList("raw", r.RawRules()))
}

func checkList(of string, list []RetentionRule) error {
	bytes := 0
	for i := range list {
		bytes += len(list[i].Database) + len(list[i].Metric)
	}
	const advice = "give databases that are kept equally long names that one pattern of retention-rules matches"
	switch {
	case len(list) > retentionRulesMax:
		return fmt.Errorf("%s is said %d times, by rules, databases and defaults together; at most %d are taken: %s", of, len(list), retentionRulesMax, advice)
	case bytes > retentionBytesMax:
		return fmt.Errorf("the expressions of what is said of %s have %d bytes, at most %d are taken: %s", of, bytes, retentionBytesMax, advice)
	}
	return nil
}

func (r *Rules) readDatabases(v rulefile.Value) error {
	entries, err := v.Entries()
	problems := []error{err}
	if len(entries) > databasesMax {
		return v.Errorf("there are %d databases, at most %d are taken", len(entries), databasesMax)
	}
	for _, e := range entries {
		if err := series.ValidateDatabase(e.Key); err != nil || e.Key == "" {
			problems = append(problems, e.Value.Errorf("%w; the default database is called %s", errors.Join(err, emptyName(e.Key)), defaultName))
			continue
		}
		var s settings
		problems = append(problems, s.read(e.Value))
		r.databases[canonical(e.Key)] = s
	}
	return errors.Join(problems...)
}

func emptyName(name string) error {
	if name == "" {
		return errors.New("a database has a name")
	}
	return nil
}

// read reads the section of one database from a file.
func (s *settings) read(v rulefile.Value) error {
	err := v.Fields(map[string]func(rulefile.Value) error{
		"retention":              func(v rulefile.Value) (err error) { s.retention, err = readSpan(v, RetentionMin, "1h"); return err },
		"raw":                    func(v rulefile.Value) (err error) { s.raw, err = readSpan(v, RawMin, "1d"); return err },
		"series-max":             countInto(&s.limits.SeriesMax),
		"series-per-second-max":  countInto(&s.limits.SeriesPerSecondMax),
		"samples-per-second-max": countInto(&s.limits.SamplesPerSecondMax),
		"query": func(v rulefile.Value) error {
			q := &s.limits.Query
			return v.Fields(map[string]func(rulefile.Value) error{
				"series-max":  countInto(&q.SeriesMax),
				"samples-max": countInto(&q.SamplesMax),
				"memory": func(v rulefile.Value) (err error) {
					q.MemoryBytes, err = v.Bytes()
					return orUnlimited(&q.MemoryBytes, err)
				},
				"running-max": countInto(&q.RunningMax),
			})
		},
	})
	return errors.Join(err, checkRaw(v, s.raw, s.retention))
}

func countInto(to *int64) func(rulefile.Value) error {
	return func(v rulefile.Value) (err error) {
		*to, err = v.Count()
		return orUnlimited(to, err)
	}
}

// orUnlimited makes Unlimited of 0, which is how files say it.
func orUnlimited(n *int64, err error) error {
	if *n == 0 && err == nil {
		*n = Unlimited
	}
	return err
}

// readSpan reads how long something is kept, at least as long as shortest, which written is the text of; 0 is for ever.
func readSpan(v rulefile.Value, shortest time.Duration, written string) (time.Duration, error) {
	d, err := v.Span()
	switch {
	case err != nil:
		return 0, err
	case d == 0:
		return Unlimited, nil
	case d < shortest:
		return 0, v.Errorf("%v is too short: write 0, for ever, or at least %s", d, written)
	}
	return d, nil
}

// checkRaw refuses a raw that goes with no retention that is said beside it.
func checkRaw(v rulefile.Value, raw, retention time.Duration) error {
	switch {
	case raw <= 0 || retention <= 0:
		return nil
	case raw >= retention:
		return v.Errorf("raw is not shorter than retention, so it means nothing: leave it out")
	case retention < rawRetentionMin:
		return v.Errorf("raw needs a retention of at least 10d, as files of shorter ones have no rollups of days: leave it out")
	}
	return nil
}

func (r *Rules) readRetention(v rulefile.Value) error {
	list, err := v.List()
	problems := []error{err}
	if len(list) > retentionRulesMax {
		return v.Errorf("there are %d rules, at most %d are taken", len(list), retentionRulesMax)
	}
	for _, item := range list {
		rule, err := readRetentionRule(item)
		r.retention, problems = append(r.retention, rule), append(problems, err)
	}
	return errors.Join(problems...)
}

func readRetentionRule(v rulefile.Value) (retentionRule, error) {
	rule := retentionRule{database: everything(), metric: everything()}
	into := func(p *pattern) func(rulefile.Value) error {
		return func(v rulefile.Value) error {
			text, err := v.Text()
			if err != nil {
				return err
			}
			if *p, err = parsePattern(text); err != nil {
				return v.Errorf("%w", err)
			}
			return nil
		}
	}
	err := v.Fields(map[string]func(rulefile.Value) error{
		"database":  into(&rule.database),
		"metric":    into(&rule.metric),
		"retention": func(v rulefile.Value) (err error) { rule.retention, err = readSpan(v, RetentionMin, "1h"); return err },
		"raw":       func(v rulefile.Value) (err error) { rule.raw, err = readSpan(v, RawMin, "1d"); return err },
	})
	err = errors.Join(err, checkRaw(v, rule.raw, rule.retention))
	if err == nil && rule.retention == 0 {
		err = v.Errorf("has no retention: add a line `retention: 30d`, or 0 for ever")
	}
	return rule, err
}
