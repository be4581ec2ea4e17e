package storage

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Damage is a part of a shard that cannot be read: what the shard has in one segment.
// Reads of it give an error until RepairRange has replaced it.
type Damage struct {
	Shard        uint16
	FromMs, ToMs int64  // of the segment's samples, both inclusive
	File         string // base name of the segment
	Reason       string
}

// DamagedError answers reads of a range whose segment cannot be opened.
type DamagedError struct{ Damage }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("segment %s, with samples of shard %d, cannot be read: %s", e.File, e.Shard, e.Reason)
}

// IsDamage reports whether an error tells of bytes on the disk that are not what was
// written, or that the disk cannot read.
func IsDamage(err error) bool {
	var damaged *DamagedError
	var corrupt *segment.CorruptError
	var fault *vfs.FaultError
	return errors.As(err, &damaged) || errors.As(err, &corrupt) || errors.As(err, &fault)
}

// sectionName names what one shard has in one segment.
type sectionName struct {
	file  string
	shard uint16
}

// damagesMax bounds the damages that are remembered; a repair makes room.
const damagesMax = 1 << 12

// damages remembers what reads have met. Sections that are gone are dropped when the
// list is asked for.
type damages struct {
	mu    sync.Mutex
	known map[sectionName]string // why
}

// add returns false when the section was known, or there are too many.
func (d *damages) add(name sectionName, reason string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.known[name]; known || len(d.known) >= damagesMax {
		return false
	}
	if d.known == nil {
		d.known = map[sectionName]string{}
	}
	d.known[name] = reason
	return true
}

// missing is a segment that could not be opened.
type missing struct {
	meta   segment.Meta
	reason string
}

// hides reports whether what a shard has in a segment does not count: it is of a replica
// that was dropped or replaced, or a repair has brought something else for it.
func (v *version) hides(m *segment.Meta, shard uint16) bool {
	return int(shard) < len(v.floors) && v.floors[shard].hidesSegment(m.SequenceHigh) || v.excluded.has(m.Name, shard)
}

// lacks returns the error of a range of a shard that a segment which is missing in a
// version may have samples in; nil: there is none.
func (e *Engine) lacks(v *version, shard uint16, within span) error {
	if len(v.missing) == 0 {
		return nil
	}
	within.fromMs = max(within.fromMs, e.shards[shard].cutMs.Load())
	for i := range v.missing {
		m := &v.missing[i].meta
		if shard >= m.ShardLow && shard <= m.ShardHigh && m.MinMs <= within.toMs && m.MaxMs >= within.fromMs && !v.hides(m, shard) {
			return &DamagedError{damageOf(m, shard, v.missing[i].reason)}
		}
	}
	return nil
}

func damageOf(m *segment.Meta, shard uint16, reason string) Damage {
	return Damage{Shard: shard, FromMs: m.MinMs, ToMs: m.MaxMs, File: m.Name, Reason: reason}
}

// noteDamage remembers what a read, or a merge, of a shard has met, if it was damage
// of a segment.
func (e *Engine) noteDamage(shard uint16, err error) {
	var corrupt *segment.CorruptError
	var fault *vfs.FaultError
	name := sectionName{shard: shard}
	switch {
	case errors.As(err, &corrupt):
		name.file = path.Base(corrupt.File)
		if corrupt.Part != segment.PartFile {
			name.shard = corrupt.Shard
		}
	case errors.As(err, &fault) && path.Ext(fault.Name) == segment.FileSuffix:
		name.file = path.Base(fault.Name)
	default:
		return
	}
	if e.damages.add(name, err.Error()) {
		e.log.Error("a segment is damaged; reads of its range give an error until it is repaired", "shard", name.shard, "segment", name.file, "error", err)
	}
}

// Damages returns what cannot be read of the shards that are here, by shard and time.
func (e *Engine) Damages() (found []Damage) {
	v := e.versions.acquire()
	defer e.versions.leave(v)
	e.damages.mu.Lock()
	if len(e.damages.known) > 0 {
		live := map[string]*segment.Meta{}
		for _, r := range v.segments {
			live[r.Meta().Name] = r.Meta()
		}
		for name, reason := range e.damages.known {
			if m := live[name.file]; m == nil || v.hides(m, name.shard) {
				delete(e.damages.known, name)
			} else {
				found = append(found, damageOf(m, name.shard, reason))
			}
		}
	}
	e.damages.mu.Unlock()
	for i := range v.missing {
		m := &v.missing[i].meta
		for shard := int(m.ShardLow); shard <= int(m.ShardHigh) && shard < len(e.shards); shard++ {
			if !v.hides(m, uint16(shard)) {
				found = append(found, damageOf(m, uint16(shard), v.missing[i].reason))
			}
		}
	}
	found = slices.DeleteFunc(found, func(d Damage) bool {
		s := e.shards[d.Shard]
		return !s.here() || d.ToMs < s.cutMs.Load() // nobody reads it, and retention drops it
	})
	slices.SortFunc(found, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.FromMs, b.FromMs), cmp.Compare(a.File, b.File))
	})
	return found
}

// here reports whether the shard has a replica that may have samples.
func (s *shard) here() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.applied > 0 && !s.absent.Load()
}

// stillMissing returns those segments that are live.
func stillMissing(lost []missing, live []segment.Meta) []missing {
	if len(lost) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(lost), func(m missing) bool { return !slices.ContainsFunc(live, sameName(&m.meta)) })
}
