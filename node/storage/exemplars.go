package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/exemplar"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/shardfile"
)

// AdmitExemplars returns those of exemplars that an entry of the shard, with a bound of so many bytes, would keep as far as the shard
// is applied here, and what becomes of all. Those that are there already are not returned.
func (e *Engine) AdmitExemplars(ctx context.Context, shard uint16, bound int64, exemplars []series.Exemplar) (fresh []series.Exemplar, o series.ExemplarOutcomes, err error) {
	_, leave, err := e.readers.Enter(ctx)
	if err != nil {
		return nil, o, err
	}
	defer leave()
	sharding := e.Sharding()
	ofSeries := make([]*series.Exemplar, 0, len(exemplars)) // before the shard is locked, as the index may be on the disk
	for i := range exemplars {
		x := &exemplars[i]
		known := sharding.Of(x.Key) == shard
		if known {
			if _, known, err = e.index.Lookup(x.Key); err != nil {
				return nil, o, err
			}
		}
		if known {
			ofSeries = append(ofSeries, x)
		} else {
			o.Refused++
		}
	}
	s, newer := e.shards[shard], map[string]*series.Exemplar{} // of series that came before in exemplars
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range ofSeries {
		switch refusal := s.mu.exemplars.Check(bound, x, newer); {
		case refusal == nil:
			o.Kept++
			newer[string(x.Key)] = x
			fresh = append(fresh, *x)
		case errors.Is(refusal, exemplar.ErrDuplicate):
			o.Kept++
		case errors.Is(refusal, exemplar.ErrOutOfOrder):
			o.OutOfOrder++
		default:
			o.Refused++
		}
	}
	return fresh, o, nil
}

// Exemplars returns the exemplars of the series of a shard that match, from a time to another, both inclusive, by key and then in
// ascending time. Errors: index.ErrRegexp, index.ErrMatcher. The keys must not be changed.
func (e *Engine) Exemplars(shard uint16, selector *scan.Selector, fromMs, toMs int64) ([]series.Exemplar, error) {
	matches, err := index.NewKeyMatcher(selector)
	if err != nil {
		return nil, err
	}
	s := e.shards[shard]
	s.mu.Lock()
	found := s.mu.exemplars.Between(max(fromMs, s.cutMs.Load()), toMs)
	s.mu.Unlock()
	rules := s.rules.Load()
	return slices.DeleteFunc(found, func(x series.Exemplar) bool {
		return !matches.Matches(x.Key) || rules != nil && x.TimeMs < rules.Of(x.Key)
	}), nil
}

// changesExemplarsLocked reports whether an entry is still to be applied to the exemplars of the shard: they may have been written to
// disk after the entries that the checkpoint counts.
func (s *shard) changesExemplarsLocked(entry uint64) bool { return entry > s.mu.exemplars.Entry() }

func (s *shard) applyExemplarsLocked(e *entry.Entry) error {
	bound, exemplars, err := entry.ParseExemplarsBody(e.Body)
	if err != nil || !s.changesExemplarsLocked(e.Index) {
		return err
	}
	r := &s.mu.exemplars
	before, evicted := r.Bytes(), r.Evicted()
	kept := 0
	for i := range exemplars {
		if r.Add(bound, exemplars[i]) == nil { // others came since the leader looked, or a series in the entry twice
			kept++
		}
	}
	r.Note(e.Index)
	stats := &s.engine.stats
	stats.exemplarsKept.Add(int64(kept))
	stats.exemplarsEvicted.Add(r.Evicted() - evicted)
	stats.exemplarBytes.Add(r.Bytes() - before)
	return nil
}

// removeExemplarsLocked removes what an entry has taken away.
func (s *shard) removeExemplarsLocked(entry uint64, gone func(*series.Exemplar) bool) {
	r := &s.mu.exemplars
	before := r.Bytes()
	if r.Remove(gone) > 0 {
		r.Note(entry)
		s.engine.stats.exemplarBytes.Add(r.Bytes() - before)
	}
}

// cutExemplarsLocked removes the exemplars that are before the cuts which an entry brings. What later ones brought a replay may know
// already, so the cuts that are in force do not decide.
func (s *shard) cutExemplarsLocked(entry uint64, cutOf func(series.Key) int64) {
	if s.mu.exemplars.Len() == 0 || !s.changesExemplarsLocked(entry) {
		return
	}
	s.removeExemplarsLocked(entry, func(x *series.Exemplar) bool { return x.TimeMs < cutOf(x.Key) })
}

// deleteExemplarsLocked removes the exemplars of series, whose ids grow, from a time to another, both inclusive. Where the index cannot
// say which series a key is, they go, too: what is deleted must not stay, and samples must not wait for a disk that does not read.
func (s *shard) deleteExemplarsLocked(entry uint64, ids []uint32, fromMs, toMs int64) {
	if s.mu.exemplars.Len() == 0 || !s.changesExemplarsLocked(entry) {
		return
	}
	known := map[string]bool{} // whether the delete names the series
	names := func(key series.Key) bool {
		named, before := known[string(key)]
		if before {
			return named
		}
		ref, found, err := s.engine.index.Lookup(key)
		if err != nil {
			s.engine.reportCorruption(fmt.Errorf("shard %d: exemplars are removed since it is not known which series they are of: %w", s.number, err))
			named = true
		} else if found {
			_, named = slices.BinarySearch(ids, uint32(ref.ID))
		}
		known[string(key)] = named
		return named
	}
	s.removeExemplarsLocked(entry, func(x *series.Exemplar) bool { return fromMs <= x.TimeMs && x.TimeMs <= toMs && names(x.Key) })
}

// replaceExemplarsLocked takes the exemplars of another replica.
func (s *shard) replaceExemplarsLocked(r exemplar.Ring) {
	s.engine.stats.exemplarBytes.Add(r.Bytes() - s.mu.exemplars.Bytes())
	s.mu.exemplars = r
}

// exemplarFiles are the exemplars of all shards on disk: one file, which the manifest names. It is guarded by the Edit of the manifest.
type exemplarFiles struct {
	files  *shardfile.Files
	shards []*shard
	log    *slog.Logger
}

// openExemplars reads the file that the manifest names. What is damaged or missing is reported, and lost.
func (e *Engine) openExemplars(name string) error {
	f := &e.exemplars
	f.shards, f.log = e.shards, e.log
	var err error
	if f.files, err = shardfile.Open(e.fs, e.dir, shardfile.Kind{Prefix: "exemplars-", Magic: "TMEXEMP\x01", What: "exemplars"}, name); err != nil {
		return err
	}
	forms, damage, err := f.files.Read(len(e.shards))
	if damage = errors.Join(damage, err); damage != nil { // a disk that does not read these shall not keep the samples from being read
		e.reportCorruption(fmt.Errorf("%s: the exemplars are lost, samples are not concerned: %w", f.files.Path(), damage))
		return nil
	}
	for i, form := range forms {
		ring, err := exemplar.Decode(form)
		if err != nil {
			e.reportCorruption(fmt.Errorf("%s: the exemplars of shard %d are lost, samples are not concerned: %w", f.files.Path(), i, err))
			continue
		}
		if !e.shards[i].absent.Load() {
			e.shards[i].replaceExemplarsLocked(ring) // nobody else knows the shard yet
		}
	}
	return nil
}

// stage writes the exemplars that each shard has now, unless none have changed. Those of replaced shards are those of the replicas that
// come. If the disk does not take them the manifest names no file: a checkpoint, which makes room in the log, must not fail for want of
// room for exemplars, and the file before may have what has been deleted since.
func (f *exemplarFiles) stage(replaced map[uint16]*exemplar.Ring) shardfile.Staged {
	entries, forms := make([]uint64, len(f.shards)), make([][]byte, len(f.shards))
	if len(replaced) > 0 {
		f.files.Forget()
	}
	for i, s := range f.shards {
		if ring := replaced[s.number]; ring != nil {
			entries[i], forms[i] = ring.Entry(), ring.Append(nil)
			continue
		}
		s.mu.Lock()
		entries[i] = s.mu.exemplars.Entry()
		s.mu.Unlock()
	}
	staged, err := f.files.Stage(entries, func(shard int) []byte {
		s := f.shards[shard]
		if replaced[s.number] != nil {
			return forms[shard]
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		// It may have changed since: then the next file is written, though it need not be.
		return s.mu.exemplars.Append(nil)
	})
	if err != nil {
		f.log.Error("exemplars are lost if the program ends before the next checkpoint", "error", err)
		return shardfile.Staged{}
	}
	return staged
}

// Stage implements transfer.Exemplars.
func (f *exemplarFiles) Stage(shard uint16, by *exemplar.Ring) shardfile.Staged {
	return f.stage(map[uint16]*exemplar.Ring{shard: by})
}

// Keep implements transfer.Exemplars.
func (f *exemplarFiles) Keep(staged shardfile.Staged) {
	if err := f.files.Keep(staged); err != nil {
		f.log.Error("old exemplars stay on disk until the next start", "error", err)
	}
}
