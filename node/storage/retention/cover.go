package retention

import (
	"regexp"
	"strings"
)

// covers reports whether a list hides all that an old one does, but for what lies before a cut
// of the whole shard. It looks at which rules a series can follow in both: one that follows
// a rule of the old list which stands in the other too follows that one or an earlier one
// there, and the other way round. Rules that name different databases, or
// metrics, have no series in common. So a false answer may be wrong, a true one is not.
func (c *Cuts) covers(old *Cuts, shardCutMs int64) bool {
	here, there := c.positions(), old.positions()
	before := make([]int, len(c.Rules)) // where the same rule stands in the old list
	for j := range c.Rules {
		before[j] = len(old.Rules) // none
		if at, ok := there[c.Rules[j].expressions()]; ok {
			before[j] = at
		}
	}
	least, _ := c.bounds()
	for i := 0; i <= len(old.Rules); i++ {
		cutMs, end := old.OtherMs, len(c.Rules)
		if i < len(old.Rules) {
			cutMs = old.Rules[i].CutMs
			if at, ok := here[old.Rules[i].expressions()]; ok {
				end = at
			}
		}
		if cutMs <= max(least, shardCutMs) {
			continue
		}
		for j := range min(end+1, len(c.Rules)) {
			if cutMs > c.Rules[j].CutMs && before[j] >= i && !(i < len(old.Rules) && old.Rules[i].apart(&c.Rules[j])) {
				return false
			}
		}
		if end == len(c.Rules) && cutMs > c.OtherMs {
			return false
		}
	}
	return true
}

// positions returns where rules stand first in a list.
func (c *Cuts) positions() map[[2]string]int {
	positions := make(map[[2]string]int, len(c.Rules))
	for i := range c.Rules {
		if _, ok := positions[c.Rules[i].expressions()]; !ok {
			positions[c.Rules[i].expressions()] = i
		}
	}
	return positions
}

func (r *Cut) expressions() [2]string { return [2]string{r.Database, r.Metric} }

// apart reports whether no series can match both rules, since they name databases, or
// metrics, that differ. A false answer may be wrong.
func (r *Cut) apart(other *Cut) bool {
	differ := func(a, b string) bool {
		a, namesA := nameOf(a)
		b, namesB := nameOf(b)
		return namesA && namesB && a != b
	}
	return differ(r.Database, other.Database) || differ(r.Metric, other.Metric)
}

// nameOf returns the only name that an expression of the form ^(?s:NAME)$ matches.
func nameOf(expression string) (name string, ok bool) {
	quoted, begins := strings.CutPrefix(expression, "^(?s:")
	quoted, ends := strings.CutSuffix(quoted, ")$")
	unquoted := make([]byte, 0, len(quoted))
	for i := 0; i < len(quoted); i++ {
		if quoted[i] == '\\' && i+1 < len(quoted) {
			i++
		}
		unquoted = append(unquoted, quoted[i])
	}
	name = string(unquoted)
	return name, begins && ends && regexp.QuoteMeta(name) == quoted
}
