package manifest

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

// IsDamage reports whether an error is about bytes on the disk that are not what was
// written, or that the disk cannot read.
func IsDamage(err error) bool {
	var damaged *DamagedError
	var corrupt *segment.CorruptError
	var fault *vfs.FaultError
	return errors.As(err, &damaged) || errors.As(err, &corrupt) || errors.As(err, &fault)
}

// section names what one shard has in one segment.
type section struct {
	file  string
	shard uint16
}

// damagesMax bounds the damages that are remembered; a repair makes room.
const damagesMax = 1 << 12

// damages remembers what reads have met. Sections that are gone are dropped when the
// list is asked for.
type damages struct {
	mu    sync.Mutex
	known map[section]string // why
}

// add returns false when the section was known, or there are too many.
func (d *damages) add(name section, reason string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.known[name]; known || len(d.known) >= damagesMax {
		return false
	}
	if d.known == nil {
		d.known = map[section]string{}
	}
	d.known[name] = reason
	return true
}

func damageOf(m *segment.Meta, shard uint16, reason string) Damage {
	return Damage{Shard: shard, FromMs: m.MinMs, ToMs: m.MaxMs, File: m.Name, Reason: reason}
}

// NoteDamage remembers what a read, or a merge, of a shard has met, if it was damage
// of a segment.
func (s *Store) NoteDamage(shard uint16, err error) {
	var corrupt *segment.CorruptError
	var fault *vfs.FaultError
	name := section{shard: shard}
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
	if s.damages.add(name, err.Error()) {
		s.o.Logger.Error("a segment is damaged; reads of its range give an error until it is repaired", "shard", name.shard, "segment", name.file, "error", err)
	}
}

// Damages returns what cannot be read of the shards that hosts reports, by shard and time. Hosts
// returns the time before which nobody reads a shard, and whether it is here.
func (s *Store) Damages(shards int, hosts func(shard uint16) (cutMs int64, ok bool)) (found []Damage) {
	v := s.Acquire()
	defer s.Leave(v)
	s.damages.mu.Lock()
	if len(s.damages.known) > 0 {
		live := map[string]*segment.Meta{}
		for _, r := range v.Segments {
			live[r.Meta().Name] = r.Meta()
		}
		for name, reason := range s.damages.known {
			if m := live[name.file]; m == nil || v.Hides(m, name.shard) {
				delete(s.damages.known, name)
			} else {
				found = append(found, damageOf(m, name.shard, reason))
			}
		}
	}
	s.damages.mu.Unlock()
	for i := range v.Missing {
		m := &v.Missing[i].Meta
		for shard := int(m.ShardLow); shard <= int(m.ShardHigh) && shard < shards; shard++ {
			if !v.Hides(m, uint16(shard)) {
				found = append(found, damageOf(m, uint16(shard), v.Missing[i].reason))
			}
		}
	}
	found = slices.DeleteFunc(found, func(d Damage) bool {
		cutMs, ok := hosts(d.Shard)
		return !ok || d.ToMs < cutMs // nobody reads it, and retention drops it
	})
	slices.SortFunc(found, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.FromMs, b.FromMs), cmp.Compare(a.File, b.File))
	})
	return found
}
