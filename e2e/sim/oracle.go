package sim

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

// oracle records what was committed, answered and read. It is told of a committed entry
// when a Host first gives it out, and applies it to a state of its own.
type oracle struct {
	world   *World
	shards  []shardOracle
	leaders map[leadership]uint64 // raft id
	owners  map[replicaID]int     // folder in which a replica was made durable
	retired map[replicaID]bool
	written map[uint64]uint64         // register of each value that clients have sent
	deletes map[series.BatchID]uint64 // series of each delete
}

type leadership struct {
	shard uint16
	era   uint32
	term  uint64
}

type replicaID struct {
	shard uint16
	id    uint64
}

// shardOracle is the truth about one shard.
type shardOracle struct {
	era      uint32
	entries  []known // by index−1
	content  content
	applied  map[series.BatchID]uint64 // index of the first entry with it
	greatest map[uint64]uint64         // counter, by session
	history  [registers][]version
	past     map[uint32][]known // entries of eras that have ended
	// The newest of its era that a node has had; whoever had it may be down.
	configuration replica.Configuration
	answered      uint64 // greatest index of a write that was answered
	answers       []answerAt
	said          map[series.BatchID]int64 // when a node first answered, µs
	// Greatest index that a read has shown; the next read shows no less.
	shown uint64
}

// answerAt describes when a node gave the answer to a write, of which the client has heard.
type answerAt struct {
	index uint64
	at    int64 // µs
}

// known is an entry that is committed.
type known struct {
	entry  entry.Entry
	hash   uint64
	digest uint64 // of the content after it
}

// registerOf numbers the registers of all shards.
func registerOf(shard uint16, series, time uint64) uint64 {
	return uint64(shard)*registers + series*timesPerSeries + time
}

// version is a register's value from an index on.
type version struct{ index, value uint64 }

func newOracle(w *World, shards int) *oracle {
	o := &oracle{world: w, shards: make([]shardOracle, shards), leaders: map[leadership]uint64{},
		owners: map[replicaID]int{}, retired: map[replicaID]bool{},
		written: map[uint64]uint64{}, deletes: map[series.BatchID]uint64{}}
	for i := range o.shards {
		o.shards[i] = shardOracle{era: 1, applied: map[series.BatchID]uint64{}, greatest: map[uint64]uint64{}, said: map[series.BatchID]int64{}}
	}
	return o
}

// committed hears of an entry that a Host calls committed.
func (o *oracle) committed(p *process, shard uint16, era uint32, e *entry.Entry) {
	s := &o.shards[shard]
	if era != s.era {
		if era > s.era {
			o.world.fail(7, "%s: shard %d is in era %d, nobody has begun it", p.node.id, shard, era)
		}
		return // of a group that was given up
	}
	if e.Kind == entry.Configuration {
		e = &entry.Entry{Kind: e.Kind, Shard: e.Shard, Term: e.Term, Index: e.Index} // a Host gives no body
	}
	hash := hashOf(e)
	if e.Index <= uint64(len(s.entries)) {
		if s.entries[e.Index-1].hash != hash {
			o.world.fail(6, "%s: shard %d index %d was committed with another content before", p.node.id, shard, e.Index)
		}
		return
	}
	if e.Index != uint64(len(s.entries))+1 {
		o.world.fail(6, "%s: shard %d index %d is committed, %d was the last", p.node.id, shard, e.Index, len(s.entries))
		return
	}
	kept := *e
	kept.Body = slices.Clone(e.Body)
	o.apply(s, shard, &kept)
	s.entries = append(s.entries, known{kept, hash, s.content.digest()})
}

func hashOf(e *entry.Entry) uint64 {
	return hashBytes([]byte{byte(e.Kind), byte(e.Term), byte(e.Term >> 8)}, e.Body)
}

// apply applies the next entry. It shares only the bytes' format with the engine's.
func (o *oracle) apply(s *shardOracle, shard uint16, e *entry.Entry) {
	switch e.Kind {
	case entry.Samples:
		batches := entry.ReadBatches(e.Body)
		for batches.Next() {
			if _, known := s.applied[batches.ID]; !known && s.namesForgotten(batches.Batch) {
				o.world.stats.Refused++
				continue
			}
			if !s.first(batches.ID, e.Index) {
				continue
			}
			o.applyBatch(s, shard, e.Index, batches.Batch)
		}
	case entry.NamedDelete:
		d, err := parseDeletion(e.Body)
		if err != nil || d.name >= s.content.known() {
			o.world.fail(9, "shard %d index %d: a delete that cannot be: %v", shard, e.Index, err)
			return
		}
		if !s.first(d.id, e.Index) {
			return
		}
		if uint64(s.content.keys[d.name]) != o.deletes[d.id] {
			o.world.fail(9, "shard %d index %d: a delete of series %d goes to series %d", shard, e.Index, o.deletes[d.id], s.content.keys[d.name])
		}
		if s.content.forgotten(d.name) {
			return
		}
		s.content.remove(&d)
		for t := d.first; t <= d.last && t < timesPerSeries; t++ {
			s.record(uint64(s.content.keys[d.name]), t, e.Index, 0)
		}
	case entry.Forget:
		o.forget(s, shard, e)
	default: // of groups: nothing to the content
	}
}

// applyBatch applies the points of a batch.
func (o *oracle) applyBatch(s *shardOracle, shard uint16, index uint64, batch []byte) {
	var r series.BatchReader
	var defined []uint64 // ids
	r.Reset(batch)
	for key, ok := r.NextDefinition(); ok; key, ok = r.NextDefinition() {
		number := slices.IndexFunc(o.world.keys[shard][:], func(k series.Key) bool { return string(k) == string(key) })
		if number < 0 {
			o.world.fail(9, "shard %d index %d: a series that nobody writes: %s", shard, index, key)
			return
		}
		defined = append(defined, s.content.define(uint64(number)))
	}
	for r.NextPoint() {
		id := uint64(r.Ref)
		if r.Ref >= uint32(series.SlotBase) {
			id = defined[r.Ref-uint32(series.SlotBase)]
		}
		if id >= s.content.known() {
			o.world.fail(9, "shard %d index %d: a point of series %d of %d", shard, index, id, s.content.known())
			return
		}
		key, time, value := uint64(s.content.keys[id]), uint64(r.TimeMs-timeMin), uint64(r.Mantissa)
		s.content.values[key*timesPerSeries+time] = value
		s.record(key, time, index, value)
		if meant, sent := o.written[value]; !sent || meant != registerOf(shard, key, time) {
			o.world.fail(9, "shard %d index %d: the value %d goes to series %d time %d, which nobody has sent", shard, index, value, key, time)
		}
	}
	if r.Err() != nil {
		o.world.fail(9, "shard %d index %d: %v", shard, index, r.Err())
	}
}

func (s *shardOracle) record(key, time, index, value uint64) {
	if at := key*timesPerSeries + time; at < registers {
		s.history[at] = append(s.history[at], version{index, value})
	}
}

// first reports whether no entry before had the id. What is behind the window is
// refused, so that nobody waits for it.
func (s *shardOracle) first(id series.BatchID, index uint64) bool {
	greatest := s.greatest[id.Session]
	if _, known := s.applied[id]; known || greatest >= id.Counter+batchWindow {
		return false
	}
	s.applied[id] = index
	s.greatest[id.Session] = max(greatest, id.Counter)
	return true
}

// checkApplied compares what a node has applied with the truth (invariant 5).
func (o *oracle) checkApplied(p *process, shard uint16, at uint64, is *content, era uint32) {
	s := &o.shards[shard]
	if at == 0 || at > uint64(len(s.entries)) || era != s.era {
		return
	}
	if is.digest() != s.entries[at-1].digest {
		p.fail(5, "shard %d at index %d is not what its log says: %+v", shard, at, *is)
	}
}

// answered hears that a node answers a part of a write.
func (o *oracle) answer(p *process, shard uint16, era uint32, id series.BatchID) {
	s := &o.shards[shard]
	index, known := s.applied[id]
	if !known {
		o.world.fail(1, "%s: shard %d answers the write %x/%d, which is not committed", p.node.id, shard, id.Session, id.Counter)
		return
	}
	if era != s.era {
		o.world.fail(11, "%s: shard %d answers in era %d, which has ended", p.node.id, shard, era)
		return
	}
	if _, before := s.said[id]; !before {
		s.said[id] = o.world.now
	}
	o.checkMajority(p, shard, index)
}

// acknowledged hears that a client has the answer to a part of a write.
func (o *oracle) acknowledged(shard uint16, id series.BatchID) {
	s := &o.shards[shard]
	if _, known := s.applied[id]; !known {
		o.world.fail(1, "the write %x/%d of shard %d is answered, but not committed", id.Session, id.Counter, shard)
	}
	s.answered = max(s.answered, s.applied[id])
	s.answers = append(s.answers, answerAt{s.applied[id], s.said[id]})
}

// floor is the least index that a read which begins now has to show.
func (o *oracle) floor(shard uint16) uint64 {
	return max(o.shards[shard].answered, o.shards[shard].shown)
}

// checkRead is invariants 2, 3, 4 and 10: each value is that of some moment between
// the read's floor and now.
func (o *oracle) checkRead(where string, shard uint16, series uint64, got [timesPerSeries]uint64, floor uint64, era uint32, shows bool) {
	s := &o.shards[shard]
	for t, value := range got {
		// What it may show was lost while it was under way, or has come; or it shows a
		// moment of which only the log of the one who went on alone knew.
		if era != s.era || !shows && s.era > 1 && floor == 0 {
			if value != 0 && o.written[value] != registerOf(shard, series, uint64(t)) {
				o.world.fail(4, "%s gives %d of shard %d series %d time %d, which nobody has sent", where, value, shard, series, t)
			}
			continue
		}
		history := s.history[series*timesPerSeries+uint64(t)]
		// The versions that a state from floor on can have: the last one before it, and later ones.
		from := 0
		for i := range history {
			if history[i].index <= floor {
				from = i
			}
		}
		possible := history[min(from, len(history)):]
		at := slices.IndexFunc(possible, func(v version) bool { return v.value == value })
		before := len(history) == 0 || history[0].index > floor // nothing was there yet
		switch {
		case at >= 0:
			if shows {
				s.shown = max(s.shown, possible[at].index)
			}
		case value == 0 && before:
		case value != 0 && o.written[value] != registerOf(shard, series, uint64(t)):
			o.world.fail(4, "%s gives %d of shard %d series %d time %d, which nobody has sent", where, value, shard, series, t)
		default:
			o.world.fail(2, "%s gives %d of shard %d series %d time %d, read from index %d; versions %v", where, value, shard, series, t, floor, history[max(0, len(history)-8):])
		}
	}
}

// checkAbsent is checkRead for a delete that has found no series.
func (o *oracle) checkAbsent(where string, shard uint16, series, first, last, floor uint64, era uint32) {
	if era != o.shards[shard].era {
		return // what it should have found may be lost since
	}
	for t := first; t <= last && t < timesPerSeries; t++ {
		history := o.shards[shard].history[series*timesPerSeries+t]
		gone := func(v version) bool { return v.value == 0 && v.index > floor }
		for i, v := range history {
			// A series that is forgotten is not found: one that had no samples at floor, or at some time since.
			before := v.value == 0 && (i+1 == len(history) || history[i+1].index > floor)
			if o.world.options.Forget && (before || slices.ContainsFunc(history, gone) || i+1 < len(history) && history[i+1].index <= floor) {
				continue
			}
			if v.index <= floor {
				o.world.fail(10, "%s: a delete of shard %d series %d found nothing, though it is there since index %d, answered up to %d", where, shard, series, v.index, floor)
				return
			}
		}
	}
}

// configured hears what a node takes for its group's configuration.
func (o *oracle) configured(status *replica.GroupStatus) {
	s, c := &o.shards[status.Shard], &status.Configuration
	if status.Era == s.era && len(c.Voters) > 0 && c.Index >= s.configuration.Index {
		s.configuration = *c
	}
}

// leads is the uniqueness of leaders.
func (o *oracle) leads(p *process, shard uint16, era uint32, term, id uint64) {
	at := leadership{shard, era, term}
	if is, ok := o.leaders[at]; ok && is != id {
		o.world.fail(6, "%s: shard %d has two leaders in term %d: %d and %d", p.node.id, shard, term, is, id)
	}
	o.leaders[at] = id
}

// made is invariant 11: a raft id is of one folder, once.
func (o *oracle) made(p *process, shard uint16, id uint64) {
	at := replicaID{shard, id}
	if owner, ok := o.owners[at]; ok && (owner != p.disk.serial || o.retired[at]) {
		o.world.fail(11, "%s: raft id %d of shard %d is made again", p.node.id, id, shard)
	}
	o.owners[at] = p.disk.serial
}

// begin starts an era from the copy that goes on, up to an index. What is lost may have been
// answered only shortly before the power was cut; entries that were in its log, but were not
// known to be committed, are committed now. Where a person has given up what others have, what
// is lost is not bounded.
func (o *oracle) begin(shard uint16, era uint32, log *image, last uint64, bounded bool) {
	s := &o.shards[shard]
	entries := o.goesOn(shard, log, last)
	common := 0
	for common < min(len(entries), len(s.entries)) && entries[common].hash == s.entries[common].hash {
		common++
	}
	for _, a := range s.answers {
		if after := o.world.nextCut(a.at) - a.at; bounded && a.index > uint64(common) && after > o.world.lossMax() {
			o.world.fail(1, "shard %d index %d, answered %d ms before the next power cut, is lost", shard, a.index, after/1000)
		}
	}
	past := s.past
	if past == nil {
		past = map[uint32][]known{}
	}
	past[s.era] = s.entries
	said := s.said
	*s = shardOracle{
		era: era, past: past, applied: map[series.BatchID]uint64{}, greatest: map[uint64]uint64{}, said: map[series.BatchID]int64{},
		answered: min(s.answered, uint64(common)), shown: min(s.shown, uint64(common)),
	}
	for i := range entries {
		e := &entries[i].entry
		o.apply(s, shard, e)
		s.entries = append(s.entries, known{*e, entries[i].hash, s.content.digest()})
	}
	for id, at := range said {
		if s.applied[id] > 0 {
			s.said[id] = at
		}
	}
}

// goesOn returns the entries that a shard goes on with: those of the log, and before them what
// was committed in its era.
func (o *oracle) goesOn(shard uint16, log *image, last uint64) (entries []known) {
	s := &o.shards[shard]
	before := s.entries
	if log.era != 0 && log.era != s.era {
		before = s.past[log.era]
	}
	for index := uint64(1); index <= last; index++ {
		e := log.at(index)
		switch {
		case e != nil:
			kept := e.entry
			if kept.Kind == entry.Configuration {
				kept.Body = nil
			}
			entries = append(entries, known{entry: kept, hash: hashOf(&kept)})
		case index <= uint64(len(before)):
			entries = append(entries, before[index-1])
		default:
			o.world.fail(8, "shard %d goes on from index %d, and entry %d is in no log", shard, last, index)
			return entries
		}
	}
	return entries
}

// nextCut returns the time of the first power cut after an answer: a second one may
// come before groups go on, and takes nothing that the first has left.
func (w *World) nextCut(after int64) int64 {
	at, _ := slices.BinarySearch(w.cuts, after)
	if at == len(w.cuts) {
		return math.MaxInt64
	}
	return w.cuts[at]
}

// lossMax is how long before a power cut an answer may have been given that is lost:
// the interval of syncs, and how long a process may have been prevented from one. What
// a killed process has not synced waits for its next start.
func (w *World) lossMax() int64 {
	most := int64(syncInterval)
	if w.options.Faults&faultsOf(FaultKill, FaultPowerCut, FaultPowerCutAll, FaultTogether) != 0 {
		most += downMax
	}
	if w.options.Faults.has(FaultSlowDisk) {
		most += slowDiskMax + syncInterval
	}
	if w.options.Faults.has(FaultPause) {
		most += pauseMax + syncInterval
	}
	return most
}

// forget applies an entry that forgets: none of its series may have samples.
func (o *oracle) forget(s *shardOracle, shard uint16, e *entry.Entry) {
	after, ids, err := parseForget(e.Body)
	if err != nil {
		o.world.fail(9, "shard %d index %d: series to forget that cannot be: %v", shard, e.Index, err)
		return
	}
	if after+1 != e.Index {
		return
	}
	for _, id := range ids {
		if id >= s.content.known() || s.content.forgotten(id) || !s.content.empty(uint64(s.content.keys[id])) {
			o.world.fail(10, "shard %d index %d: id %d of %d is to be forgotten, which is so already, or has samples", shard, e.Index, id, s.content.known())
			return
		}
		s.content.ids[s.content.keys[id]] = 0
		o.world.stats.Forgotten++
	}
}

// namesForgotten reports whether a batch names a series that is forgotten, and so is not applied.
func (s *shardOracle) namesForgotten(batch []byte) bool {
	var r series.BatchReader
	r.Reset(batch)
	for ok := true; ok; {
		_, ok = r.NextDefinition()
	}
	for r.NextPoint() {
		if id := uint64(r.Ref); r.Ref < uint32(series.SlotBase) && id < s.content.known() && s.content.forgotten(id) {
			return true
		}
	}
	return false
}

// parseForget reads the body of an entry that forgets, without the product's code.
func parseForget(body []byte) (after uint64, ids []uint64, err error) {
	unsigned := func() uint64 { return next(&body, &err, binary.Uvarint) }
	after = unsigned()
	id := uint64(0)
	for range unsigned() {
		id += unsigned()
		if ids = append(ids, id); err != nil {
			break
		}
	}
	return after, ids, err
}
