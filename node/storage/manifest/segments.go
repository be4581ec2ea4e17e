package manifest

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// openSegments opens what the manifest names and removes other files. A segment
// that cannot be opened is reported, and reads of its range give an error: the rest
// keeps serving. It stays in the manifest.
func (s *Store) openSegments(metas []segment.Meta) (readers []*segment.Reader, lost []Missing, err error) {
	if err := s.o.FS.MkdirAll(s.Folder()); err != nil {
		return nil, nil, fmt.Errorf("make the folder of segments: %w", err)
	}
	names, err := s.o.FS.List(s.Folder())
	if err != nil {
		return nil, nil, fmt.Errorf("list segments: %w", err)
	}
	known := map[string]bool{}
	for i := range metas {
		known[metas[i].Name] = true
	}
	for _, name := range names {
		if !known[name] && (strings.HasSuffix(name, segment.FileSuffix) || strings.HasSuffix(name, segment.TemporarySuffix)) {
			if err := s.o.FS.Remove(s.path(name)); err != nil {
				return nil, nil, fmt.Errorf("remove an unfinished segment: %w", err)
			}
		}
	}
	for i := range metas {
		r, err := segment.Open(s.o.FS, s.path(metas[i].Name))
		if err != nil {
			s.o.Corrupt(err)
			lost = append(lost, Missing{metas[i], err.Error()})
			continue
		}
		readers = append(readers, r)
	}
	return readers, lost, nil
}

// Folder returns the folder of segments.
func (s *Store) Folder() string { return path.Join(s.o.Dir, s.o.Segments) }

func (s *Store) path(name string) string { return path.Join(s.Folder(), name) }

// OpenNew opens segments that have just been written, or removes them all.
func (s *Store) OpenNew(metas []segment.Meta) ([]*segment.Reader, error) {
	var readers []*segment.Reader
	for i := range metas {
		r, err := segment.Open(s.o.FS, s.path(metas[i].Name))
		if err != nil {
			return nil, errors.Join(err, Discard(readers), s.Remove(metas[i:]))
		}
		readers = append(readers, r)
	}
	return readers, nil
}

// Adopt assigns files of segments sequences from first on and their names, and opens them.
// After an error they are gone.
func (s *Store) Adopt(files []string, first uint64) (readers []*segment.Reader, err error) {
	metas := make([]segment.Meta, 0, len(files))
	for i, name := range files {
		meta, err := segment.Renumber(s.o.FS, name, first+uint64(i))
		if err == nil {
			err = s.o.FS.Rename(name, s.path(meta.Name))
		}
		if err != nil {
			return nil, errors.Join(err, s.Remove(metas))
		}
		metas = append(metas, meta)
	}
	if len(files) > 0 {
		if err := s.o.FS.SyncDir(s.Folder()); err != nil {
			return nil, errors.Join(err, s.Remove(metas))
		}
	}
	return s.OpenNew(metas)
}

// Remove removes the files of segments that nobody has opened.
func (s *Store) Remove(metas []segment.Meta) error {
	var problems []error
	for i := range metas {
		problems = append(problems, s.o.FS.Remove(s.path(metas[i].Name)))
	}
	return errors.Join(problems...)
}

// Unpublished drops segments whose manifest could not be written. Their files
// stay if the disk may have a manifest that names them.
func Unpublished(err error, readers []*segment.Reader) error {
	if !errors.Is(err, ErrInDoubt) {
		return Discard(readers)
	}
	var problems []error
	for _, r := range readers {
		problems = append(problems, r.Release())
	}
	return errors.Join(problems...)
}

// Discard removes segments that nothing names.
func Discard(readers []*segment.Reader) error {
	var problems []error
	for _, r := range readers {
		r.Drop()
		problems = append(problems, r.Release())
	}
	return errors.Join(problems...)
}

// orderSegments puts segments into the order of writing.
func orderSegments(readers []*segment.Reader) []*segment.Reader {
	slices.SortStableFunc(readers, func(a, b *segment.Reader) int {
		x, y := a.Meta(), b.Meta()
		if x.SequenceLow != y.SequenceLow {
			return int(int64(x.SequenceLow) - int64(y.SequenceLow))
		}
		return int(min(max(x.StartMs-y.StartMs, -1), 1))
	})
	return readers
}

// add puts segments among those of a version that is not published yet.
func (v *Version) add(readers []*segment.Reader) {
	v.Segments = orderSegments(append(slices.Clone(v.Segments), readers...))
}

// ReadersOf returns the open readers of metas, in their order.
func (v *Version) ReadersOf(metas []segment.Meta) []*segment.Reader {
	var readers []*segment.Reader
	for i := range metas {
		for _, r := range v.Segments {
			if r.Meta().Name == metas[i].Name {
				readers = append(readers, r)
			}
		}
	}
	return readers
}

func SameName(m *segment.Meta) func(segment.Meta) bool {
	return func(other segment.Meta) bool { return other.Name == m.Name }
}
