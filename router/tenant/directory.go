package tenant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/tenancy"
)

// Marks keeps what somebody has said of databases by name. It is safe for concurrent use.
type Marks interface {
	// All returns the marks, from memory. They are shared and not to be changed.
	All() map[string]shardmap.DatabaseMark
	// Set notes a mark, "" that there is none. Errors: those of shardmap.Store.SetDatabase.
	Set(ctx context.Context, name string, mark shardmap.DatabaseMark) error
}

// DirectoryOptions configure a Directory. All but Rules and Clock are required.
type DirectoryOptions struct {
	Source  scan.Source
	Deleter scan.Deleter
	Marks   Marks
	Rules   func() *tenancy.Rules // nil: there are none
	Clock   func() time.Time      // nil: time.Now
}

// Directory lists, makes and drops databases. Names are canonical: the
// default database is "", and always there. Whether a caller may do so is not asked here. It
// is safe for concurrent use.
type Directory struct {
	options DirectoryOptions

	mu struct {
		sync.Mutex
		lives map[string]life // of databases that are marked as dropped
	}
}

// life is whether a dropped database had samples.
type life struct {
	found bool
	until time.Time // after it has to be looked at again
}

// Bounds of looking for samples of dropped databases.
const (
	lifeTimeout = 2 * time.Second // of all in one list
	lifeKept    = 10 * time.Second
)

// NewDirectory makes a Directory.
func NewDirectory(o DirectoryOptions) *Directory {
	if o.Rules == nil {
		o.Rules = func() *tenancy.Rules { return nil }
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	d := &Directory{options: o}
	d.mu.lives = map[string]life{}
	return d
}

// List returns the sorted names of all databases: those that have series, unless they were
// dropped and nothing came since; those that rules name; those that were created. Errors:
// those of scan.Source.Databases.
func (d *Directory) List(ctx context.Context) ([]string, error) {
	withSeries, err := d.options.Source.Databases(ctx)
	if err != nil {
		return nil, err
	}
	marks := d.options.Marks.All()
	look, cancel := context.WithTimeout(ctx, lifeTimeout)
	defer cancel()
	all := map[string]bool{"": true}
	for _, name := range withSeries {
		if marks[name] != shardmap.DatabaseDropped || d.lives(look, name) {
			all[name] = true
		}
	}
	for _, name := range d.options.Rules().Databases() {
		all[name] = true
	}
	for name, mark := range marks {
		if mark == shardmap.DatabaseCreated {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// errFound ends a search.
var errFound = errors.New("found")

// lives reports whether a dropped database has samples again. Its series stay known until
// retention drops their time, so only a look at samples tells. When that takes too long it
// counts as having some.
func (d *Directory) lives(ctx context.Context, name string) bool {
	now := d.options.Clock()
	d.mu.Lock()
	known, ok := d.mu.lives[name]
	d.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.found
	}
	err := d.options.Source.Last(ctx, &scan.Selector{Database: name, MetricAny: true}, scan.TimeMsMin, scan.Limits{}, func(scan.Point) error { return errFound })
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.mu.lives) >= shardmap.DatabasesMax {
		clear(d.mu.lives)
	}
	d.mu.lives[name] = life{err != nil, now.Add(lifeKept)}
	return err != nil
}

// Create makes a database. One that is there is a success, for which no store is asked.
// Errors: series.ErrDatabase, and those of Marks.Set.
func (d *Directory) Create(ctx context.Context, name string) error {
	name = access.Canonical(name)
	if err := series.ValidateDatabase(name); err != nil {
		return err
	}
	mark := d.options.Marks.All()[name]
	if name == "" || mark == shardmap.DatabaseCreated || slices.Contains(d.options.Rules().Databases(), name) {
		return nil
	}
	err := d.options.Marks.Set(ctx, name, shardmap.DatabaseCreated)
	if !errors.Is(err, shardmap.ErrUnavailable) || mark == shardmap.DatabaseDropped {
		return err
	}
	if withSeries, failed := d.options.Source.Databases(ctx); failed == nil && slices.Contains(withSeries, name) {
		return nil // it is there without being noted
	}
	return err
}

// Drop deletes all samples of a database, and its name unless rules have it. One that is not
// there is a success. What is written while it is dropped, or later, makes the database
// anew. Errors: those of scan.Deleter and of Marks.Set; the same again goes on.
func (d *Directory) Drop(ctx context.Context, name string) error {
	name = access.Canonical(name)
	_, err := d.options.Deleter.Delete(ctx, &scan.Selector{Database: name, MetricAny: true}, scan.TimeMsMin, scan.TimeMsMax)
	if err != nil {
		return fmt.Errorf("the samples of database %q: %w", access.Display(name), err)
	}
	d.mu.Lock()
	delete(d.mu.lives, name)
	d.mu.Unlock()
	if name == "" {
		return nil
	}
	withSeries, err := d.options.Source.Databases(ctx)
	if err != nil {
		return err
	}
	mark := shardmap.DatabaseMark("")
	if slices.Contains(withSeries, name) {
		mark = shardmap.DatabaseDropped
	}
	if d.options.Marks.All()[name] == mark || shardmap.ValidateDatabase(name, mark) != nil { // no mark can have such a name
		return nil //nolint:nilerr // see above
	}
	return d.options.Marks.Set(ctx, name, mark)
}
