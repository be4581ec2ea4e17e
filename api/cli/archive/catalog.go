package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Entry is a backup as a list shows it.
type Entry struct {
	Name       string
	ModifiedAt time.Time // of its manifest, by the clock of the storage
	Manifest   *Manifest // nil: it cannot be read
	Err        error     // why
}

// Complete reports whether the backup can be restored.
func (e *Entry) Complete() bool { return e.Manifest != nil && e.Manifest.FinishedMs != 0 }

// List returns the backups at a target, the oldest first; those that cannot be read at the
// end.
func List(ctx context.Context, s Store) ([]Entry, error) {
	var list []Entry
	for info, err := range s.List(ctx, backupsPrefix) {
		if err != nil {
			return nil, err
		}
		if name, ok := nameOf(info.Key); ok {
			list = append(list, Entry{Name: name, ModifiedAt: info.ModifiedAt})
		}
	}
	for i := range list {
		e := &list[i]
		e.Manifest, e.Err = readManifest(ctx, s, e.Name)
		if e.Err != nil && !known(e.Err) {
			return nil, e.Err
		}
	}
	list = slices.DeleteFunc(list, func(e Entry) bool { return errors.Is(e.Err, ErrNone) }) // deleted meanwhile
	slices.SortFunc(list, func(a, b Entry) int {
		if a.Manifest == nil || b.Manifest == nil {
			return cmp.Or(cmp.Compare(b2i(a.Manifest == nil), b2i(b.Manifest == nil)), cmp.Compare(a.Name, b.Name))
		}
		return cmp.Or(cmp.Compare(a.Manifest.StartedMs, b.Manifest.StartedMs), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// known reports whether an error tells of the content of the target, not of its storage.
func known(err error) bool {
	return errors.Is(err, ErrNone) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrFormat) ||
		errors.Is(err, ErrEncrypted) || errors.Is(err, ErrSignature)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// newest returns the complete backup of a cluster that was begun last; nil: there is none.
func newest(list []Entry, cluster string, complete bool) *Entry {
	for i := range slices.Backward(list) {
		e := &list[i]
		if e.Manifest != nil && e.Complete() == complete && (cluster == "" || e.Manifest.Cluster == cluster) {
			return e
		}
	}
	return nil
}

// Unfinished returns the name of the backup of a cluster that was cut short last; empty:
// none was since the last complete one.
func Unfinished(ctx context.Context, s Store, cluster string) (string, error) {
	list, err := List(ctx, s)
	if err != nil {
		return "", err
	}
	e := newest(list, cluster, false)
	if done := newest(list, cluster, true); e == nil || done != nil && done.Manifest.StartedMs >= e.Manifest.StartedMs {
		return "", nil
	}
	return e.Name, nil
}

// Backup is a backup that can be read.
type Backup struct {
	Manifest
	store Store
	index *Index
}

// Load reads manifest and index of a complete backup; of the one that was begun last when
// name is empty. Errors: ErrNone, ErrDamaged, ErrFormat; ErrUsed when it is not complete.
func Load(ctx context.Context, s Store, name string) (*Backup, error) {
	if name == "" {
		list, err := List(ctx, s)
		if err != nil {
			return nil, err
		}
		if err := doubts(list, keysOf(s)); err != nil {
			return nil, err
		}
		e := newest(list, "", true)
		if e == nil {
			return nil, fmt.Errorf("%s: %w that is complete", s, errors.Join(append(problemsOf(list), ErrNone)...))
		}
		name = e.Name
	} else if err := CheckName(name); err != nil {
		return nil, err
	}
	m, err := readManifest(ctx, s, name)
	if err != nil {
		return nil, err
	}
	if m.FinishedMs == 0 {
		return nil, fmt.Errorf("%s: backup %q was cut short, or is being written: %w; start `tickmesh backup` again", s, name, ErrUsed)
	}
	x, err := readIndex(ctx, s, m)
	if err != nil {
		return nil, err
	}
	return &Backup{Manifest: *m, store: s, index: x}, nil
}

// doubts refuses to call a backup the newest while one that cannot be read may be newer:
// else whoever spoils the newest could have an older one restored. Errors: ErrEncrypted,
// ErrSignature; with trusted keys ErrDamaged and ErrFormat, too.
func doubts(list []Entry, k *Keys) error {
	for i := range list {
		err := list[i].Err
		if errors.Is(err, ErrEncrypted) || errors.Is(err, ErrSignature) || err != nil && len(k.trusted) > 0 {
			return fmt.Errorf("%w; it may be the newest backup: name the one that is meant with --name", err)
		}
	}
	return nil
}

// problemsOf returns what is wrong with backups that cannot be read.
func problemsOf(list []Entry) (problems []error) {
	for i := range list {
		if list[i].Err != nil {
			problems = append(problems, list[i].Err)
		}
	}
	return problems
}

// Units returns the units of the backup, which are not to be changed.
func (b *Backup) Units() []Unit { return b.index.Units }
