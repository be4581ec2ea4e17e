package access

// ReadOnly returns a principal that may do of what p may only what reads. It stands for
// somebody whose request was sent by a page that is let in for reading.
func ReadOnly(p Principal) Principal { return readOnly{p} }

type readOnly struct{ Principal }

// May implements Principal.
func (r readOnly) May(database string, right Right) bool {
	return right == Read && r.Principal.May(database, right)
}
