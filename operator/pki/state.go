package pki

import (
	"maps"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/certificate"
)

// State is what the Secrets of a cluster have.
type State struct {
	Authority *Authority       // nil: there is none
	Leaves    map[string]*Leaf // by identity; nil or missing: it is not there
}

// Advance returns the state that the Secrets are to be brought to now; what needs no change
// is the same pointer. Whoever writes it writes the authority first, and may stop after
// any Secret: the next Advance goes on from what is there. Identities are by the names
// that Leaves has; leaves of others are left out of it. Rotation: see Plan. Errors:
// ErrSettings, those of the random source.
func Advance(s Settings, name string, identities map[string]certificate.Identity, state State, rotation string, now time.Time) (State, error) {
	if err := s.Validate(); err != nil {
		return State{}, err
	}
	ordered := slices.Sorted(maps.Keys(identities))
	leaves := make([]*Leaf, 0, len(ordered))
	for _, identity := range ordered {
		leaves = append(leaves, state.Leaves[identity])
	}
	authority, err := advanceAuthority(s, name, state.Authority, leaves, rotation, now)
	if err != nil {
		return State{}, err
	}
	after := State{Authority: authority, Leaves: make(map[string]*Leaf, len(ordered))}
	for i, identity := range ordered {
		if after.Leaves[identity], err = advanceLeaf(s, authority, leaves[i], identities[identity], now); err != nil {
			return State{}, err
		}
	}
	return after, nil
}

func advanceAuthority(s Settings, name string, a *Authority, leaves []*Leaf, rotation string, now time.Time) (*Authority, error) {
	if a == nil {
		fresh, err := NewAuthority(s, name, leaves, now)
		if err == nil {
			fresh.Rotation = rotation // the first one needs no replacement
		}
		return fresh, err
	}
	switch Plan(s, a, leaves, rotation, now) {
	case StepIntroduce:
		return a.Introduce(s, name, rotation, now)
	case StepPromote:
		return a.Promote(), nil
	case StepRetire:
		return a.Retire(), nil
	case StepWait:
	}
	return a, nil
}

// advanceLeaf returns a leaf as it is to be now; nil: it has to wait for an authority with
// a key.
func advanceLeaf(s Settings, a *Authority, l *Leaf, identity certificate.Identity, now time.Time) (*Leaf, error) {
	switch DueOf(a, l, identity, now) {
	case DueIssue:
		if a.Signer.Key == nil {
			return nil, nil
		}
		return a.Issue(s, identity, now)
	case DueTrust:
		return l.Trust(a, now), nil
	case DueNothing:
	}
	return l, nil
}
