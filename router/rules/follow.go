package rules

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/access"
)

// files follow the files of all databases.
type files struct {
	logger  *slog.Logger
	readers map[string]*reader // by database; not changed once it is made

	mu struct {
		sync.Mutex
		current map[string]*ruleSet
		refused map[string]string // the last problem of a database, told once; none: its files are good
	}
	reloads, failures atomic.Int64
}

// openFiles reads all files for the first time. Errors: ErrFiles.
func openFiles(patterns []Pattern, p parser.Parser, logger *slog.Logger) (*files, error) {
	f := &files{logger: logger, readers: map[string]*reader{}}
	for _, pattern := range patterns {
		r := f.readers[pattern.Database]
		if r == nil {
			r = &reader{parser: p, logger: logger}
			f.readers[pattern.Database] = r
		}
		r.paths = append(r.paths, pattern.Path)
	}
	f.mu.current, f.mu.refused = map[string]*ruleSet{}, map[string]string{}
	var problems []error
	for _, database := range f.databases() {
		set, err := f.readers[database].read(nil)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		f.mu.current[database] = set
	}
	return f, errors.Join(problems...)
}

// databases returns those that files are named for.
func (f *files) databases() []string { return slices.Sorted(maps.Keys(f.readers)) }

// current returns what the files of a database said when they last made sense; nil: none are named.
func (f *files) current(database string) *ruleSet {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.current[database]
}

// check reads all files again and returns the databases whose rules are others now.
func (f *files) check() (changed []string) {
	for _, database := range f.databases() {
		last := f.current(database)
		set, err := f.readers[database].read(last)
		if errors.Is(err, errChanging) {
			continue
		}
		if err != nil {
			f.refuse(database, err)
			continue
		}
		f.mu.Lock()
		delete(f.mu.refused, database)
		f.mu.current[database] = set
		f.mu.Unlock()
		if set == last {
			continue
		}
		f.reloads.Add(1)
		f.logger.Info("files of rules have changed; what they say holds from now on", "database", access.Display(database),
			"files", len(set.files), "groups", set.count.groups, "rules", set.count.rules)
		changed = append(changed, database)
	}
	return changed
}

// refuse notes a problem, once for as long as it stays the same.
func (f *files) refuse(database string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text := err.Error(); f.mu.refused[database] != text {
		f.mu.refused[database] = text
		f.failures.Add(1)
		f.logger.Error("files of rules have changed and are not usable; what they said before stays in force", "database", access.Display(database), "error", err)
	}
}

// good reports whether the files of all databases are in force as they are on disk.
func (f *files) good() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.refused) == 0
}

// counts returns how much the rules of all databases are.
func (f *files) counts() (all counts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, set := range f.mu.current {
		all.groups += set.count.groups
		all.rules += set.count.rules
	}
	return all
}

// errUnknownFile is a bug: a manager loads what it was told of.
var errUnknownFile = fmt.Errorf("%w: a file that was not read", ErrFiles)
