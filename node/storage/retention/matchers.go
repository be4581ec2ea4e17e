package retention

import (
	"fmt"
	"regexp"
	"sync"
)

const (
	knownMax         = 1 << 17 // metrics whose rule is remembered, of each list
	noRule           = -1      // the rule of a series that none matches
	defaultRulesName = "default"
)

// matchers say which rule of a list a series follows. That does not depend on cuts, so
// the tables of all shards whose lists have the same rules share them: compiled once for
// each shard, and anew for each cut, a thousand rules would take seconds, and memory by the
// hundred megabytes.
type matchers struct {
	sum   uint32 // checksum of the rules
	rules []matcher

	mu    sync.RWMutex
	known map[string]int // the first rule that matches, by database and metric as they stand in keys
}

type matcher struct{ database, metric *regexp.Regexp }

// newMatchers compiles the rules of a list. Error: ErrCuts.
func newMatchers(list *Cuts) (*matchers, error) {
	m := &matchers{sum: list.sum(), rules: make([]matcher, len(list.Rules)), known: map[string]int{}}
	compiled := map[string]*regexp.Regexp{} // many are those of everything
	compile := func(text string) (*regexp.Regexp, error) {
		if already := compiled[text]; already != nil {
			return already, nil
		}
		expression, err := regexp.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCuts, err)
		}
		compiled[text] = expression
		return expression, nil
	}
	for i := range list.Rules {
		var err error
		if m.rules[i].database, err = compile(list.Rules[i].Database); err != nil {
			return nil, err
		}
		if m.rules[i].metric, err = compile(list.Rules[i].Metric); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// of returns the first rule that matches, or noRule. Head is what a key begins with, database
// and metric.
func (m *matchers) of(head, database, metric []byte) int {
	if len(m.rules) == 0 {
		return noRule
	}
	m.mu.RLock()
	rule, known := m.known[string(head)]
	m.mu.RUnlock()
	if known {
		return rule
	}
	rule = m.match(database, metric)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= knownMax {
		clear(m.known)
	}
	m.known[string(head)] = rule
	return rule
}

func (m *matchers) match(database, metric []byte) int {
	if len(database) == 0 {
		database = []byte(defaultRulesName)
	}
	for i := range m.rules {
		if m.rules[i].database.Match(database) && m.rules[i].metric.Match(metric) {
			return i
		}
	}
	return noRule
}
