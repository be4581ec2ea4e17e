package shardmap

import "fmt"

// Role describes what a member does in its group. The zero value is no role.
type Role uint8

// The roles.
const (
	Full    Role = iota + 1 // a voter with log and data
	Witness                 // a voter with the log only; it never serves
	Learner                 // joining, without a vote
)

// Votes reports whether a member with this role votes.
func (r Role) Votes() bool { return r == Full || r == Witness }

// String returns the role's name, as it is in the JSON of a map.
func (r Role) String() string {
	switch r {
	case Full:
		return "full"
	case Witness:
		return "witness"
	case Learner:
		return "learner"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// MarshalText returns the role's name; an unknown role is an error.
func (r Role) MarshalText() ([]byte, error) {
	if r < Full || r > Learner {
		return nil, fmt.Errorf("%w: %s", ErrMap, r)
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads a role's name. An unknown one is ErrMap.
func (r *Role) UnmarshalText(text []byte) error {
	for role := Full; role <= Learner; role++ {
		if string(text) == role.String() {
			*r = role
			return nil
		}
	}
	return fmt.Errorf("%w: role %q", ErrMap, text)
}
