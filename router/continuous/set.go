package continuous

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Set is the continuous queries of a server or a cluster. It is safe for concurrent use.
type Set struct {
	store  Store
	logger *slog.Logger

	mu struct {
		sync.Mutex
		read map[string]readRecord // by id: what was read before
	}
}

// readRecord is a record and what it says.
type readRecord struct {
	text  string
	query *Query // nil: it cannot be read
}

// NewSet returns the queries of a store. A nil logger logs nothing.
func NewSet(store Store, logger *slog.Logger) *Set {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Set{store: store, logger: logger}
}

// all returns the queries that can be read, by database and name.
func (s *Set) all() []*Query {
	records := s.store.Records()
	s.mu.Lock()
	defer s.mu.Unlock()
	read := make(map[string]readRecord, len(records))
	var all []*Query
	for id, text := range records {
		r, ok := s.mu.read[id]
		if !ok || r.text != text {
			q, err := decode(id, text)
			if err != nil {
				s.logger.Error("a continuous query cannot be read, and is not run", "id", id, "error", err)
			}
			r = readRecord{text, q}
		}
		if read[id] = r; r.query != nil {
			all = append(all, r.query)
		}
	}
	s.mu.read = read
	slices.SortFunc(all, func(a, b *Query) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// ByDatabase returns the queries that can be read, by database, and those of one by name.
func (s *Set) ByDatabase() map[string][]*Query {
	of := map[string][]*Query{}
	for _, q := range s.all() {
		of[q.Database] = append(of[q.Database], q)
	}
	return of
}

// Create makes the query of a statement; one that is there already with the same text is a success. Errors: ErrQuery,
// ErrExists, and those of the Store.
func (s *Set) Create(ctx context.Context, statement *ql.CreateContinuousQueryStatement, now time.Time) error {
	q, err := newQuery(statement, now)
	if err != nil {
		return err
	}
	next, err := q.encode()
	if err != nil {
		return err
	}
	id := idOf(q.Database, q.Name)
	if _, err := decode(id, next); err != nil { // what is written can be read
		return fmt.Errorf("%w: %w", ErrQuery, err)
	}
	records, err := s.store.Load(ctx)
	if err != nil {
		return err
	}
	if records[id] == "" {
		if err = s.store.Swap(ctx, id, "", next); !errors.Is(err, shardmap.ErrQueryChanged) {
			return err
		}
		if records, err = s.store.Load(ctx); err != nil { // another was faster
			return err
		}
	}
	if known, err := decode(id, records[id]); err != nil || known.Text != q.Text {
		return ErrExists
	}
	return nil
}

// swapsMax is how often a query is dropped that others change at the same time.
const swapsMax = 3

// Drop takes a query away, also one that cannot be read; one that is not there is a success, as in InfluxDB. Errors: those of
// the Store.
func (s *Set) Drop(ctx context.Context, database, name string) error {
	return s.drop(ctx, func(id string) bool { return id == idOf(database, name) })
}

// DropOf takes all queries of a database away, also those that cannot be read. Errors: those of the Store.
func (s *Set) DropOf(ctx context.Context, database string) error {
	of := idOf(access.Canonical(database), "")
	return s.drop(ctx, func(id string) bool { return strings.HasPrefix(id, of) })
}

// drop takes away the queries of some ids. What this process knows may be old: others make queries, too.
func (s *Set) drop(ctx context.Context, chosen func(id string) bool) (err error) {
	for range swapsMax {
		var records map[string]string
		if records, err = s.store.Load(ctx); err != nil {
			return err
		}
		for id, old := range records {
			if err == nil && chosen(id) {
				err = s.store.Swap(ctx, id, old, "")
			}
		}
		if !errors.Is(err, shardmap.ErrQueryChanged) {
			return err
		}
	}
	return err
}
