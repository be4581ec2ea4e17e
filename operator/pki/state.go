package pki

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/certificate"
)

// State is what the Secrets of a cluster have.
type State struct {
	CA     *CA              // nil: there is none
	Leaves map[string]*Leaf // by identity; nil or missing: it is not there
}

// Known returns a leaf that others than the operator may have changed: nil, if it is of no
// CA that the rest of the state trusts, or of another name; whom else it trusts does not
// count, and is to be mended.
func (s State) Known(l *Leaf, name certificate.Name) *Leaf {
	var trusted []*x509.Certificate
	if s.CA != nil {
		trusted = s.CA.Bundle()
	} else {
		for _, other := range s.Leaves {
			trusted = append(trusted, other.Bundle...)
		}
	}
	is, err := certificate.NameOf(l.Certificate)
	if err != nil || is != name || !slices.ContainsFunc(trusted, func(c *x509.Certificate) bool { return l.Certificate.CheckSignatureFrom(c) == nil }) {
		return nil
	}
	known := *l
	known.Bundle = slices.DeleteFunc(slices.Clone(l.Bundle), func(c *x509.Certificate) bool { return !slices.ContainsFunc(trusted, c.Equal) })
	if len(known.Bundle) < len(l.Bundle) {
		known.ChangedAt = time.Time{}
	}
	return &known
}

// Advance returns the state that the Secrets are to be brought to now; what needs no change
// is the same pointer. Whoever writes it writes the CA first, and may stop after
// any Secret: the next Advance goes on from what is there. Holders are by the names
// that Leaves has; leaves of others are left out of it. Errors: ErrSettings, those of the
// random source.
func Advance(s Settings, name string, holders map[string]Holder, state State, d Demand, now time.Time) (State, error) {
	if err := s.Validate(); err != nil {
		return State{}, err
	}
	ordered := slices.Sorted(maps.Keys(holders))
	leaves := make([]*Leaf, 0, len(ordered))
	for _, identity := range ordered {
		leaves = append(leaves, state.Leaves[identity])
	}
	ca, err := advanceCA(s, name, state.CA, leaves, d, now)
	if err != nil {
		return State{}, err
	}
	after := State{CA: ca, Leaves: make(map[string]*Leaf, len(ordered))}
	for i, identity := range ordered {
		if after.Leaves[identity], err = advanceLeaf(s, ca, leaves[i], holders[identity], now); err != nil {
			return State{}, err
		}
	}
	return after, nil
}

func advanceCA(s Settings, name string, a *CA, leaves []*Leaf, d Demand, now time.Time) (*CA, error) {
	if a == nil {
		fresh, err := NewCA(s, name, leaves, now)
		if err == nil {
			fresh.Rotation = d.Rotation // the first one needs no replacement
		}
		return fresh, err
	}
	switch Plan(s, a, leaves, d, now) {
	case StepIntroduce:
		return a.Introduce(s, name, d.Rotation, now)
	case StepPromote:
		return a.Promote(), nil
	case StepRetire:
		return a.Retire(), nil
	case StepWait:
	}
	return a, nil
}

// advanceLeaf returns a leaf as it is to be now; nil: it has to wait for a CA with
// a key.
func advanceLeaf(s Settings, a *CA, l *Leaf, h Holder, now time.Time) (*Leaf, error) {
	switch DueOf(a, l, h, now) {
	case DueIssue:
		if a.Signer.Key == nil {
			return nil, nil
		}
		return a.Issue(s, h, now)
	case DueTrust:
		return l.Trust(a, now), nil
	case DueNothing:
	}
	return l, nil
}
