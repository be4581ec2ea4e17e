package retention

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// Cuts are the cuts of a list of rules, of which the first that matches a series
// holds: samples before its cut are hidden, and go when their segment is written anew.
type Cuts struct {
	Rules   []Cut `json:"rules"`
	OtherMs int64 `json:"otherMs"` // of series that no rule matches
}

// Cut is the cut of the series whose database and metric match. A cut of NoCut hides
// nothing.
type Cut struct {
	// Database and Metric are expressions (RE2), anchored by whoever writes them. For
	// Database the default database is called "default".
	Database string `json:"database"`
	Metric   string `json:"metric"`
	CutMs    int64  `json:"cutMs"`
}

// ErrCuts marks a list of cuts that cannot be used.
var ErrCuts = errors.New("not a list of cuts by rule")

// NoCut is the cut that hides nothing.
const NoCut = math.MinInt64

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a constant table

// Bounds of what an entry may bring, and of what a shard keeps.
const (
	rulesMax           = 1 << 10 // rules of a list
	expressionBytesMax = 4 << 10 // of an expression
	listsMax           = 64      // lists whose rules differ,
	rulesAllMax        = 8 << 10 // and their rules together; a leader proposes no more, see Fits
)

// Encode encodes Cuts: varint other, uvarint count, and for each rule uvarint
// length and bytes of database and of metric, varint cut.
func Encode(c *Cuts) []byte {
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

func Decode(b []byte) (c Cuts, err error) {
	bad := func(what string) (Cuts, error) {
		return Cuts{}, fmt.Errorf("%w: %s", ErrCuts, what)
	}
	var used int
	if c.OtherMs, used = binary.Varint(b); used <= 0 {
		return bad("other")
	}
	b = b[used:]
	n, used := binary.Uvarint(b)
	if used <= 0 || n > rulesMax {
		return bad("count")
	}
	b = b[used:]
	for range n {
		var r Cut
		for _, text := range [...]*string{&r.Database, &r.Metric} {
			length, used := binary.Uvarint(b)
			if used <= 0 || length > expressionBytesMax || length > uint64(len(b)-used) {
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
func (c *Cuts) SameRules(other *Cuts) bool {
	return slices.EqualFunc(c.Rules, other.Rules, func(a, b Cut) bool { return a.Database == b.Database && a.Metric == b.Metric })
}

// raise moves the cuts on to those of a list with the same rules where these are later.
func (c *Cuts) raise(other *Cuts) {
	c.OtherMs = max(c.OtherMs, other.OtherMs)
	for i := range c.Rules {
		c.Rules[i].CutMs = max(c.Rules[i].CutMs, other.Rules[i].CutMs)
	}
}

// sum is a checksum of the rules, whatever their cuts.
func (c *Cuts) sum() uint32 {
	rules := Cuts{Rules: slices.Clone(c.Rules)}
	for i := range rules.Rules {
		rules.Rules[i].CutMs = 0
	}
	return crc32.Checksum(Encode(&rules), castagnoli)
}

// bounds returns the earliest and the latest of its cuts.
func (c *Cuts) bounds() (least, most int64) {
	least, most = c.OtherMs, c.OtherMs
	for i := range c.Rules {
		least, most = min(least, c.Rules[i].CutMs), max(most, c.Rules[i].CutMs)
	}
	return least, most
}

// Table is a shard's rules: the list that holds now, behind earlier ones,
// since what a rule has hidden stays hidden when rules change. It does not change itself.
type Table struct {
	lists    []Cuts
	matchers []*matchers // of the lists
}

// NewTable compiles lists, but for those whose rules one of other tables, which may be
// nil, has too; none give nil, the table that hides nothing. Error: ErrCuts.
func NewTable(lists []Cuts, others []*Table) (*Table, error) {
	if len(lists) == 0 {
		return nil, nil
	}
	t := &Table{lists: lists}
	for i := range lists {
		m := matchersAmong(others, &lists[i])
		if m == nil {
			var err error
			if m, err = newMatchers(&lists[i]); err != nil {
				return nil, err
			}
		}
		t.matchers = append(t.matchers, m)
	}
	return t, nil
}

// matchersAmong returns the matchers of a list's rules from a table that has them; nil: none
// has.
func matchersAmong(tables []*Table, list *Cuts) *matchers {
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

// Most returns the latest cut of a list.
func (c *Cuts) Most() int64 {
	_, most := c.bounds()
	return most
}

// Most returns the latest of all cuts of a table, which may be nil.
func (t *Table) Most() int64 {
	latest := int64(NoCut)
	for i := range t.Lists() {
		latest = max(latest, t.lists[i].Most())
	}
	return latest
}

// sum is a checksum of the rules of the last list.
func (t *Table) sum() uint32 { return t.matchers[len(t.matchers)-1].sum }

// Lists returns the lists of a table, which may be nil.
func (t *Table) Lists() []Cuts {
	if t == nil {
		return nil
	}
	return t.lists
}

// With returns the table after an entry. Of lists with the same rules, which also come when
// the log is replayed over a later manifest, one is enough. Lists that hide nothing beyond
// the last one, or beyond the shard's own cut, are forgotten.
func (t *Table) With(c Cuts, shardCutMs int64, others []*Table) (*Table, error) {
	last := Cuts{Rules: slices.Clone(c.Rules), OtherMs: c.OtherMs}
	lists := slices.DeleteFunc(slices.Clone(t.Lists()), func(old Cuts) bool {
		same := old.SameRules(&last)
		if same {
			last.raise(&old)
		}
		return same
	})
	least, _ := last.bounds()
	lists = slices.DeleteFunc(lists, func(old Cuts) bool {
		_, most := old.bounds()
		return most <= max(least, shardCutMs) || last.covers(&old, shardCutMs)
	})
	return NewTable(append(lists, last), append([]*Table{t}, others...))
}

// Of returns the cut of a series: the latest of what the lists say.
func (t *Table) Of(key series.Key) int64 {
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
func (t *Table) passed(maxMs int64) (n int) {
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

// Fits reports whether a shard that has some lists has room for one more. One whose
// rules it knows takes none.
func Fits(known []Cuts, c *Cuts) bool {
	rules := len(c.Rules)
	for i := range known {
		if known[i].SameRules(c) {
			return true
		}
		rules += len(known[i].Rules)
	}
	return len(known) < listsMax && rules <= rulesAllMax
}

// SharesMatchers reports whether two tables, whose last lists have the same rules, have compiled
// them once.
func (t *Table) SharesMatchers(other *Table) bool {
	return t.matchers[len(t.matchers)-1] == other.matchers[len(other.matchers)-1]
}

// Keys are the keys of series, as the index has them.
type Keys interface {
	Local(shard uint16, id series.ID) (local uint32, ok bool)
	Key(local uint32, dst []byte) (series.Key, error)
}

// CutOf returns the cut of a series by the rules of a table, which may be nil.
func (t *Table) CutOf(keys Keys, shard uint16, id uint32) (int64, error) {
	if t == nil {
		return NoCut, nil
	}
	local, ok := keys.Local(shard, series.ID(id))
	if !ok {
		return NoCut, nil
	}
	var room [256]byte
	key, err := keys.Key(local, room[:0])
	if err != nil {
		return NoCut, err
	}
	return t.Of(key), nil
}
