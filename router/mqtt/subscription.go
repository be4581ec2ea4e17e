package mqtt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/series"
)

// format is what payloads are.
type format uint8

const (
	formatJSON format = iota
	formatLine
	formatValue
)

var formats = map[string]format{"json": formatJSON, "line": formatLine, "value": formatValue} //nolint:gochecknoglobals // a constant table

var booleans = map[string]bool{"true": true, "false": false} //nolint:gochecknoglobals // a constant table

// subscription is what the file says of some topics.
type subscription struct {
	pattern  pattern
	qos      byte
	format   format
	retained bool   // messages that the broker has kept are taken, too
	database string // canonical
	metric   naming
	tags     []label // of all series

	timeUnit     timeUnit
	timeUnitText string

	// Of JSON.
	timePath jsonPath // nil: messages have no time
	jsonTags []namedPath
	fields   []namedPath // nil: all numbers
}

func (c *connection) readSubscriptions(v rulefile.Value) error {
	list, err := v.List()
	problems := []error{err}
	if len(list) > subscriptionsMax {
		return v.Errorf("there are %d subscriptions, at most %d are taken", len(list), subscriptionsMax)
	}
	filters := map[string]bool{}
	for _, item := range list {
		s, err := readSubscription(item)
		if err == nil && filters[s.pattern.filter()] {
			err = item.Errorf("another subscription has the same topics, %s: a topic belongs to the first that matches", s.pattern.filter())
		}
		problems = append(problems, err)
		if err == nil {
			filters[s.pattern.filter()] = true
			c.subscriptions = append(c.subscriptions, s)
		}
	}
	return errors.Join(problems...)
}

// subscriptionReader gathers what is said of one subscription.
type subscriptionReader struct {
	*subscription
	metricText string
	// said are the keys that only some formats have.
	said []string
}

func readSubscription(v rulefile.Value) (*subscription, error) {
	r := &subscriptionReader{subscription: &subscription{qos: 1, format: formatJSON}}
	of := func(key string, read func(rulefile.Value) error) func(rulefile.Value) error {
		return func(v rulefile.Value) error { r.said = append(r.said, key); return read(v) }
	}
	err := v.Fields(map[string]func(rulefile.Value) error{
		"topic":     r.readPattern,
		"qos":       r.readQoS,
		"format":    func(v rulefile.Value) (err error) { r.format, err = readWord(v, formats); return err },
		"retained":  r.readRetained,
		"database":  r.readDatabase,
		"tags":      r.readTags,
		"metric":    of("metric", func(v rulefile.Value) (err error) { r.metricText, err = v.Text(); return err }),
		"time":      of("time", func(v rulefile.Value) (err error) { r.timePath, err = readPath(v); return err }),
		"time-unit": of("time-unit", r.readTimeUnit),
		"json-tags": of("json-tags", func(v rulefile.Value) (err error) { r.jsonTags, err = readPaths(v, checkName); return err }),
		"fields":    of("fields", func(v rulefile.Value) (err error) { r.fields, err = readPaths(v, checkField); return err }),
	})
	if err == nil {
		err = r.finish(v)
	}
	return r.subscription, err
}

// keysOf are the keys that only some formats have.
var keysOf = map[format][]string{ //nolint:gochecknoglobals // a constant table
	formatJSON:  {"metric", "time", "time-unit", "json-tags", "fields"},
	formatLine:  {"time-unit"},
	formatValue: {"metric"},
}

// finish fills in what was not said, and refuses what does not go together.
func (r *subscriptionReader) finish(v rulefile.Value) error {
	if len(r.pattern.levels) == 0 {
		return v.Errorf("there is no topic: add one, such as topic: sensors/{room}/{metric}")
	}
	for _, key := range r.said {
		if !slices.Contains(keysOf[r.format], key) {
			return v.Errorf("%s means nothing with this format, which has only %s of the keys of json", key, strings.Join(keysOf[r.format], ", "))
		}
	}
	if err := r.finishTime(v); err != nil {
		return err
	}
	if err := r.finishMetric(); err != nil {
		return v.Errorf("metric: %w", err)
	}
	return r.checkTags(v)
}

func (r *subscriptionReader) finishTime(v rulefile.Value) error {
	switch {
	case r.format == formatJSON && (r.timePath == nil) != (r.timeUnit == unitNone):
		return v.Errorf("time and time-unit belong together: say both, or neither for the time at which messages arrive")
	case r.format == formatLine && r.timeUnit == unitText:
		return v.Errorf("time-unit: line protocol has times in ns, us, ms or s")
	case r.format == formatLine && r.timeUnit == unitNone:
		r.timeUnit = unitNs
	}
	return nil
}

// finishMetric makes the name of the metric, which line protocol has in itself.
func (r *subscriptionReader) finishMetric() (err error) {
	if r.format == formatLine {
		if r.pattern.has(metricLevel) {
			return errors.New("line protocol names its metric itself: write + for {metric} in the topic")
		}
		return nil
	}
	hasMetric, isJSON := r.pattern.has(metricLevel), r.format == formatJSON
	if r.metricText == "" {
		switch {
		case hasMetric && isJSON:
			r.metricText = "{metric}_{field}"
		case hasMetric:
			r.metricText = "{metric}"
		case isJSON:
			r.metricText = "{field}"
		default:
			return errors.New("a number has no name: write {metric} for a level of the topic, or add the key metric")
		}
	}
	var known []string
	for _, l := range r.pattern.levels {
		if l.name != "" && !slices.Contains(known, l.name) {
			known = append(known, l.name)
		}
	}
	if isJSON {
		known = append(known, fieldName)
	}
	if r.metric, err = parseNaming(r.metricText, known); err != nil {
		return err
	}
	if isJSON && !r.metric.uses(fieldName) && len(r.fields) != 1 {
		return errors.New("all numbers of a record would have one name: use {field}, or name one of them by the key fields")
	}
	return nil
}

// checkTags refuses names that stand for two things.
func (r *subscriptionReader) checkTags(v rulefile.Value) error {
	seen := map[string]bool{}
	var names []string
	for _, l := range r.pattern.levels {
		if l.name != "" && l.name != metricLevel {
			names = append(names, l.name)
		}
	}
	for _, t := range r.tags {
		names = append(names, t.name)
	}
	for _, t := range r.jsonTags {
		names = append(names, t.name)
	}
	for _, name := range names {
		if seen[name] {
			return v.Errorf("two tags have the name %s, of levels of the topic, tags and json-tags: rename one", name)
		}
		seen[name] = true
	}
	if seen[fieldName] && r.format == formatJSON && r.pattern.has(fieldName) {
		return v.Errorf("a level of the topic is named field, which stands for names in the JSON: rename it")
	}
	return nil
}

func (r *subscriptionReader) readPattern(v rulefile.Value) error {
	text, err := v.Text()
	if err != nil {
		return err
	}
	if r.pattern, err = parsePattern(text); err != nil {
		return v.Errorf("%w", err)
	}
	return nil
}

func (r *subscriptionReader) readQoS(v rulefile.Value) error {
	n, err := v.Count()
	if err == nil && n > 1 {
		err = v.Errorf("%d: expected 0, or 1, with which nothing is lost; QoS 2 would add nothing, as a sample that is written twice is the same", n)
	}
	r.qos = byte(min(n, 1))
	return err
}

func (r *subscriptionReader) readRetained(v rulefile.Value) (err error) {
	r.retained, err = readWord(v, booleans)
	return err
}

func (r *subscriptionReader) readDatabase(v rulefile.Value) error {
	text, err := v.Text()
	if err != nil {
		return err
	}
	if err := series.ValidateDatabase(text); err != nil {
		return v.Errorf("%w", err)
	}
	r.database = access.Canonical(text)
	return nil
}

func (r *subscriptionReader) readTags(v rulefile.Value) error {
	entries, err := v.Entries()
	problems := []error{err}
	for _, e := range entries {
		value, err := e.Value.Text()
		if err == nil && value == "" {
			err = e.Value.Errorf("a tag has to have a value")
		}
		if err == nil {
			err = checkKey(e, checkName)
		}
		problems = append(problems, err)
		r.tags = append(r.tags, label{e.Key, value})
	}
	return errors.Join(problems...)
}

func (r *subscriptionReader) readTimeUnit(v rulefile.Value) (err error) {
	if r.timeUnit, err = readWord(v, timeUnits); err == nil {
		r.timeUnitText, err = v.Text()
	}
	return err
}

// readWord reads one of some words.
func readWord[T any](v rulefile.Value, words map[string]T) (word T, err error) {
	text, err := v.Text()
	if err != nil {
		return word, err
	}
	word, ok := words[text]
	if !ok {
		return word, v.Errorf("%q: expected one of %s", text, strings.Join(slices.Sorted(maps.Keys(words)), ", "))
	}
	return word, nil
}

func readPath(v rulefile.Value) (jsonPath, error) {
	text, err := v.Text()
	if err != nil {
		return nil, err
	}
	path, err := parsePath(text)
	if err != nil {
		return nil, v.Errorf("%q: %w", text, err)
	}
	return path, nil
}

// readPaths reads names and the paths of what they stand for.
func readPaths(v rulefile.Value, check func(string) error) (all []namedPath, err error) {
	entries, err := v.Entries()
	problems := []error{err}
	for _, e := range entries {
		path, err := readPath(e.Value)
		if err == nil {
			err = checkKey(e, check)
		}
		all, problems = append(all, namedPath{e.Key, path}), append(problems, err)
	}
	if len(entries) == 0 && err == nil {
		problems = append(problems, v.Errorf("expected lines of the form `name: path`, or no such key"))
	}
	return all, errors.Join(problems...)
}

// checkKey checks the name of an entry.
func checkKey(e rulefile.Entry, check func(string) error) error {
	if err := check(e.Key); err != nil {
		return e.Value.Errorf("%w", err)
	}
	return nil
}

// checkField refuses what cannot be part of a metric's name.
func checkField(name string) error {
	if name == "" || len(name) > connectionNameMax*2 {
		return fmt.Errorf("a field's name has 1 to %d bytes", connectionNameMax*2)
	}
	return nil
}
