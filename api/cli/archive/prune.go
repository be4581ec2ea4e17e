package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// GraceDefault is how old an object that no backup names has to be to be deleted while
// another backup is being written.
const GraceDefault = 24 * time.Hour

// PruneOptions say what is to be deleted.
type PruneOptions struct {
	// Names of backups to delete. One that is not there is no error.
	Names []string
	// Keep is how many complete backups of each cluster are kept, the newest; 0: all.
	Keep int
	// Grace is how old a backup that was cut short has to be to be deleted, and, while
	// there is a younger one, an object that no backup names.
	Grace time.Duration
	// Running lets a backup be deleted by name though it may still be written.
	Running bool
	Now     time.Time
}

// Pruned describes what was deleted.
type Pruned struct {
	Backups []string // names
	Objects int64
	Bytes   int64
}

// Prune deletes backups, and then the objects that none of the others names or holds. It
// may be cut short, repeated, and run beside writers; see A1 to A4 in the package's doc.
// Errors: ErrUsed for a backup that is being written; ErrDamaged and ErrFormat when nobody
// can say what another backup needs: then no object is deleted.
func Prune(ctx context.Context, s Store, o PruneOptions) (done Pruned, err error) {
	list, err := List(ctx, s)
	if err != nil {
		return done, err
	}
	doomed, err := o.doomed(list)
	if err != nil {
		return done, fmt.Errorf("%s: %w", s, err)
	}
	for _, name := range doomed {
		if err := s.Delete(ctx, manifestKey(name)); err != nil {
			return done, err
		}
		done.Backups = append(done.Backups, name)
	}
	present, err := objectsPresent(ctx, s) // before manifests are read, see A3
	if err != nil {
		return done, err
	}
	needed, writing, err := neededObjects(ctx, s)
	if err != nil {
		return done, fmt.Errorf("no object is deleted: %w", err)
	}
	for sum, info := range present {
		if needed[sum] || writing && o.Now.Sub(info.ModifiedAt) < o.Grace {
			continue
		}
		if err := s.Delete(ctx, info.Key); err != nil {
			return done, err
		}
		done.Objects++
		done.Bytes += info.Bytes
	}
	return done, nil
}

// doomed returns the names of the backups to delete.
func (o *PruneOptions) doomed(list []Entry) (names []string, err error) {
	kept := map[string]int{} // by cluster
	for i := range slices.Backward(list) {
		e := &list[i]
		old := o.Now.Sub(e.ModifiedAt) >= o.Grace
		named := slices.Contains(o.Names, e.Name)
		switch {
		case e.Complete():
			kept[e.Manifest.Cluster]++
			named = named || o.Keep > 0 && kept[e.Manifest.Cluster] > o.Keep
		case named && e.Manifest != nil && !old && !o.Running:
			return nil, fmt.Errorf("%w: backup %q may still be written", ErrUsed, e.Name)
		case e.Manifest != nil:
			named = named || old
		}
		if named {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// readsMax bounds how often a backup is read that is being written meanwhile.
const readsMax = 5

// neededObjects returns the checksums of all objects that backups name or hold, and whether
// one of them is not complete.
func neededObjects(ctx context.Context, s Store) (needed map[string]bool, writing bool, err error) {
	list, err := List(ctx, s)
	if err != nil {
		return nil, false, err
	}
	needed = map[string]bool{}
	for i := range list {
		complete, err := need(ctx, s, list[i].Name, needed)
		if err != nil {
			return nil, false, err
		}
		writing = writing || !complete
	}
	return needed, writing, nil
}

func need(ctx context.Context, s Store, name string, needed map[string]bool) (complete bool, err error) {
	for range readsMax {
		m, manifestErr := readManifest(ctx, s, name)
		if errors.Is(manifestErr, ErrNone) {
			return true, nil // another one has deleted it
		}
		if manifestErr != nil {
			return false, manifestErr
		}
		var x *Index
		if x, err = readIndex(ctx, s, m); err != nil {
			continue // it may have been replaced
		}
		needed[m.Index.SHA256] = true
		for _, objects := range [][]Object{x.Objects, x.Held} {
			for i := range objects {
				needed[objects[i].SHA256] = true
			}
		}
		return m.FinishedMs != 0, nil
	}
	return false, err
}
