package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// RuleCuts are the cuts of a list of rules, of which the first that matches a series
// holds: samples before its cut are hidden, and go when their segment is written anew.
type RuleCuts struct {
	Rules   []RuleCut `json:"rules"`
	OtherMs int64     `json:"otherMs"` // of series that no rule matches
}

// RuleCut is the cut of the series whose database and metric match. A cut of NoCut hides
// nothing.
type RuleCut struct {
	// Database and Metric are expressions (RE2), anchored by whoever writes them. For
	// Database the default database is called "default".
	Database string `json:"database"`
	Metric   string `json:"metric"`
	CutMs    int64  `json:"cutMs"`
}

// NoCut is the cut that hides nothing.
const NoCut = math.MinInt64

// Bounds of what an entry may bring, and of what a shard keeps.
const (
	ruleCutsMax     = 1 << 10 // rules of a list
	ruleCutBytesMax = 4 << 10 // of an expression
	ruleCutListsMax = 64      // lists whose rules differ,
	ruleCutsAllMax  = 8 << 10 // and their rules together; a leader proposes no more, see RuleCutsFit
)

// RuleCutsBody encodes RuleCuts: varint other, uvarint count, and for each rule uvarint
// length and bytes of database and of metric, varint cut.
func RuleCutsBody(c *RuleCuts) []byte {
	b := binary.AppendVarint(nil, c.OtherMs)
	b = binary.AppendUvarint(b, uint64(len(c.Rules)))
	for i := range c.Rules {
		r := &c.Rules[i]
		for _, text := range [...]string{r.Database, r.Metric} {
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
		b = binary.AppendVarint(b, r.CutMs)
	}
	return b
}

func parseRuleCutsBody(b []byte) (c RuleCuts, err error) {
	bad := func(what string) (RuleCuts, error) {
		return RuleCuts{}, fmt.Errorf("%w: rule cuts: %s", ErrEntry, what)
	}
	var used int
	if c.OtherMs, used = binary.Varint(b); used <= 0 {
		return bad("other")
	}
	b = b[used:]
	n, used := binary.Uvarint(b)
	if used <= 0 || n > ruleCutsMax {
		return bad("count")
	}
	b = b[used:]
	for range n {
		var r RuleCut
		for _, text := range [...]*string{&r.Database, &r.Metric} {
			length, used := binary.Uvarint(b)
			if used <= 0 || length > ruleCutBytesMax || length > uint64(len(b)-used) {
				return bad("expression")
			}
			*text, b = string(b[used:used+int(length)]), b[used+int(length):]
		}
		if r.CutMs, used = binary.Varint(b); used <= 0 {
			return bad("cut")
		}
		b = b[used:]
		c.Rules = append(c.Rules, r)
	}
	if len(b) > 0 {
		return bad("bytes behind its end")
	}
	return c, nil
}

// SameRules reports whether two lists differ in their cuts only.
func (c *RuleCuts) SameRules(other *RuleCuts) bool {
	return slices.EqualFunc(c.Rules, other.Rules, func(a, b RuleCut) bool { return a.Database == b.Database && a.Metric == b.Metric })
}

// raise moves the cuts on to those of a list with the same rules where these are later.
func (c *RuleCuts) raise(other *RuleCuts) {
	c.OtherMs = max(c.OtherMs, other.OtherMs)
	for i := range c.Rules {
		c.Rules[i].CutMs = max(c.Rules[i].CutMs, other.Rules[i].CutMs)
	}
}

// sum is a checksum of the rules, whatever their cuts.
func (c *RuleCuts) sum() uint32 {
	rules := RuleCuts{Rules: slices.Clone(c.Rules)}
	for i := range rules.Rules {
		rules.Rules[i].CutMs = 0
	}
	return crc32.Checksum(RuleCutsBody(&rules), castagnoli)
}

// bounds returns the earliest and the latest of its cuts.
func (c *RuleCuts) bounds() (least, most int64) {
	least, most = c.OtherMs, c.OtherMs
	for i := range c.Rules {
		least, most = min(least, c.Rules[i].CutMs), max(most, c.Rules[i].CutMs)
	}
	return least, most
}

// ruleTable is what a shard knows of rules: the list that holds now, behind earlier ones,
// since what a rule has hidden stays hidden when rules change. It does not change itself.
type ruleTable struct {
	lists    []RuleCuts
	matchers []*ruleMatchers // of the lists
}

// newRuleTable compiles lists, but for those whose rules one of other tables, which may be
// nil, has too; none give nil, the table that hides nothing. Error: ErrEntry.
func newRuleTable(lists []RuleCuts, others []*ruleTable) (*ruleTable, error) {
	if len(lists) == 0 {
		return nil, nil
	}
	t := &ruleTable{lists: lists}
	for i := range lists {
		m := matchersAmong(others, &lists[i])
		if m == nil {
			var err error
			if m, err = newRuleMatchers(&lists[i]); err != nil {
				return nil, err
			}
		}
		t.matchers = append(t.matchers, m)
	}
	return t, nil
}

// matchersAmong returns the matchers of a list's rules from a table that has them; nil: none
// has.
func matchersAmong(tables []*ruleTable, list *RuleCuts) *ruleMatchers {
	sum := list.sum()
	for _, t := range tables {
		if t == nil {
			continue
		}
		for i, m := range t.matchers {
			if m.sum == sum && t.lists[i].SameRules(list) {
				return m
			}
		}
	}
	return nil
}

// ruleTables returns the tables of all shards, some of them nil.
func (e *Engine) ruleTables() []*ruleTable {
	tables := make([]*ruleTable, len(e.shards))
	for i, s := range e.shards {
		tables[i] = s.rules.Load()
	}
	return tables
}

// sum is a checksum of the rules of the last list.
func (t *ruleTable) sum() uint32 { return t.matchers[len(t.matchers)-1].sum }

// all returns the lists of a table, which may be nil.
func (t *ruleTable) all() []RuleCuts {
	if t == nil {
		return nil
	}
	return t.lists
}

// with returns the table after an entry. Of lists with the same rules, which also come when
// the log is replayed over a later manifest, one is enough. Lists that hide nothing beyond
// the last one, or beyond the shard's own cut, are forgotten.
func (t *ruleTable) with(c RuleCuts, shardCutMs int64, others []*ruleTable) (*ruleTable, error) {
	last := RuleCuts{Rules: slices.Clone(c.Rules), OtherMs: c.OtherMs}
	lists := slices.DeleteFunc(slices.Clone(t.all()), func(old RuleCuts) bool {
		same := old.SameRules(&last)
		if same {
			last.raise(&old)
		}
		return same
	})
	least, _ := last.bounds()
	lists = slices.DeleteFunc(lists, func(old RuleCuts) bool {
		_, most := old.bounds()
		return most <= max(least, shardCutMs) || last.covers(&old, shardCutMs)
	})
	return newRuleTable(append(lists, last), append([]*ruleTable{t}, others...))
}

// of returns the cut of a series: the latest of what the lists say.
func (t *ruleTable) of(key series.Key) int64 {
	database, metric, length, ok := key.Head()
	if !ok {
		return NoCut
	}
	cut := int64(NoCut)
	for i, m := range t.matchers {
		list := &t.lists[i]
		of := list.OtherMs
		if rule := m.of(key[:length], database, metric); rule != noRule {
			of = list.Rules[rule].CutMs
		}
		cut = max(cut, of)
	}
	return cut
}

// passed counts the cuts of the last list that all samples up to a time lie before.
func (t *ruleTable) passed(maxMs int64) (n int) {
	last := &t.lists[len(t.lists)-1]
	if last.OtherMs > maxMs {
		n++
	}
	for i := range last.Rules {
		if last.Rules[i].CutMs > maxMs {
			n++
		}
	}
	return n
}

// ShardRuleCuts returns the lists of cuts that a shard knows, whose rules differ. The last one
// holds now. They must not be changed.
func (e *Engine) ShardRuleCuts(shard uint16) []RuleCuts { return e.shards[shard].rules.Load().all() }

// RuleCutsFit reports whether a shard that knows some lists has room for one more. One whose
// rules it knows takes none.
func RuleCutsFit(known []RuleCuts, c *RuleCuts) bool {
	rules := len(c.Rules)
	for i := range known {
		if known[i].SameRules(c) {
			return true
		}
		rules += len(known[i].Rules)
	}
	return len(known) < ruleCutListsMax && rules <= ruleCutsAllMax
}

func (s *shard) applyRuleCutsLocked(body []byte) error {
	c, err := parseRuleCutsBody(body)
	if err != nil {
		return err
	}
	table, err := s.rules.Load().with(c, s.cutMs.Load(), s.engine.ruleTables())
	if err != nil {
		return err
	}
	s.mu.watches.touch(noCut)
	s.rules.Store(table)
	return nil
}

// cutOf returns the time before which the samples of a series are gone.
func (s *shard) cutOf(id uint32) (int64, error) {
	cut, table := s.cutMs.Load(), s.rules.Load()
	if table == nil {
		return cut, nil
	}
	local, ok := s.engine.index.Local(s.number, series.ID(id))
	if !ok {
		return cut, nil
	}
	var room [256]byte
	key, err := s.engine.index.Key(local, room[:0])
	if err != nil {
		return cut, err
	}
	return max(cut, table.of(key)), nil
}
