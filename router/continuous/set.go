package continuous

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
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

// Of returns the queries of a database by name.
func (s *Set) Of(database string) []*Query {
	return slices.DeleteFunc(s.all(), func(q *Query) bool { return q.Database != database })
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
		return errors.Join(ErrQuery, err)
	}
	if s.isThere(id, q.Text) {
		return nil
	}
	if s.store.Records()[id] != "" {
		return ErrExists
	}
	if err = s.store.Swap(ctx, id, "", next); errors.Is(err, shardmap.ErrQueryChanged) { // another was faster
		if err = ErrExists; s.isThere(id, q.Text) {
			err = nil
		}
	}
	return err
}

// isThere reports whether an id has a query with a text.
func (s *Set) isThere(id, text string) bool {
	known, err := decode(id, s.store.Records()[id])
	return err == nil && known.Text == text
}

// Drop takes a query away, also one that cannot be read; one that is not there is a success, as in InfluxDB. Errors: those of
// the Store.
func (s *Set) Drop(ctx context.Context, database, name string) error {
	id := idOf(database, name)
	old := s.store.Records()[id]
	if old == "" {
		return nil
	}
	return s.store.Swap(ctx, id, old, "")
}

// DropOf takes all queries of a database away. Errors: those of the Store.
func (s *Set) DropOf(ctx context.Context, database string) error {
	for _, q := range s.Of(access.Canonical(database)) {
		if err := s.Drop(ctx, q.Database, q.Name); err != nil {
			return err
		}
	}
	return nil
}
