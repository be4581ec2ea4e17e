package access

import "slices"

// Single is implemented by principals whose rights may name one database only.
type Single interface {
	// OnlyDatabase returns the one database that the principal has rights on, and whether
	// there is exactly one.
	OnlyDatabase() (string, bool)
}

// Only returns the one database that a principal has rights on, and whether there is exactly one.
func Only(p Principal) (string, bool) {
	if s, ok := p.(Single); ok {
		return s.OnlyDatabase()
	}
	return "", false
}

// confined is a principal for the time of a request that is for some databases, usually one, or for none.
type confined struct {
	Principal
	databases []string
	whole     bool // what is of no database stays allowed
}

// Confine returns the principal without its rights on all databases but some, and on the whole.
func Confine(p Principal, databases ...string) Principal {
	return &confined{Principal: p, databases: databases}
}

// WithoutDatabases returns the principal without its rights on databases: what is left is what
// it may do with the cluster.
func WithoutDatabases(p Principal) Principal { return &confined{Principal: p, whole: true} }

// May implements Principal.
func (c *confined) May(database string, right Right) bool {
	if right == 0 { // being somebody is enough
		return c.Principal.May(database, right)
	}
	if database == Everything {
		return c.whole && c.Principal.May(database, right)
	}
	return slices.Contains(c.databases, database) && c.Principal.May(database, right)
}

// OnlyDatabase implements Single.
func (c *confined) OnlyDatabase() (string, bool) {
	if len(c.databases) != 1 {
		return "", false
	}
	return c.databases[0], true
}
