package admission

import "sync"

// memory is what queries are charged for, by owner. It is safe for concurrent use.
type memory struct {
	max int64 // beyond it queries that want more are refused; 0: no bound

	mu  sync.Mutex // guards the rest
	all int64
	of  map[string]int64
}

func newMemory(max int64) *memory { return &memory{max: max, of: map[string]int64{}} }

// charge adds bytes, which are negative when they are given back, to what an owner has, and reports whether there is room for
// them. They are charged all the same.
func (m *memory) charge(owner string, bytes int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all += bytes
	own := m.of[owner] + bytes
	if m.of[owner] = own; own == 0 {
		delete(m.of, owner)
	}
	return m.max <= 0 || bytes <= 0 || fits(own, m.all, m.max)
}

// bytes returns what all are charged for.
func (m *memory) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all
}
