package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/certificate"
)

// Settings are the lengths of time that certificates go by.
type Settings struct {
	// CAValidity and LeafValidity are how long certificates are made for.
	CAValidity, LeafValidity time.Duration
	// PropagationDelay is how long it may take until a pod uses a Secret that was written.
	PropagationDelay time.Duration
}

// Defaults are the settings of the operator. Kubelets bring Secrets to pods within about
// two minutes, and programs read the files again within a second of their next handshake.
func Defaults() Settings {
	const day = 24 * time.Hour
	return Settings{CAValidity: 3650 * day, LeafValidity: 90 * day, PropagationDelay: 15 * time.Minute}
}

// ErrSettings marks settings that certificates cannot be kept up with.
var ErrSettings = errors.New("bad settings of certificates")

// Validate reports whether there is time enough to replace a CA before it would
// shorten its leaves' time, and leaves before they end. Errors: ErrSettings.
func (s Settings) Validate() error {
	switch {
	case s.PropagationDelay <= 0:
		return fmt.Errorf("%w: a propagation delay of %v; expected more than 0", ErrSettings, s.PropagationDelay)
	case s.LeafValidity < 12*s.PropagationDelay:
		return fmt.Errorf("%w: leaves valid for %v; expected at least 12 times the %v that a Secret takes to reach all pods", ErrSettings, s.LeafValidity, s.PropagationDelay)
	case s.CAValidity < 4*s.LeafValidity:
		return fmt.Errorf("%w: the CA valid for %v; expected at least 4 times the %v of leaves", ErrSettings, s.CAValidity, s.LeafValidity)
	}
	return nil
}

// ErrNoKey: the key of the CA is lost, and the next one does not sign yet.
var ErrNoKey = errors.New("the CA's key is lost; the next CA signs as soon as all trust it")

// CA is what signs the leaves of a cluster, and whom they trust. It is a value:
// its methods give another one.
type CA struct {
	Signer certificate.Pair
	Next   *certificate.Pair   // trusted already, signs soon; nil: none
	Old    []*x509.Certificate // trusted still, signed leaves that may be in use
	// Rotation is the word that the last replacement was asked for with; see Plan.
	Rotation string
}

// NewCA makes the first CA of a cluster; its name is part of the subject.
// Leaves are those that are in use, as when the Secret of the CA was lost: then
// the new one is the next, and the signer is theirs, without its key. Errors: those of
// the random source.
func NewCA(s Settings, name string, leaves []*Leaf, now time.Time) (*CA, error) {
	pair, err := newCAPair(s, name, now)
	if err != nil {
		return nil, err
	}
	trusted := trustedBy(leaves)
	if len(trusted) == 0 {
		return &CA{Signer: *pair}, nil
	}
	return &CA{Signer: certificate.Pair{Certificate: trusted[0]}, Next: pair, Old: trusted[1:]}, nil
}

// trustedBy returns the CAs that leaves trust, each once, those that have signed
// one first.
func trustedBy(leaves []*Leaf) []*x509.Certificate {
	var signers, others []*x509.Certificate
	for _, l := range leaves {
		if l == nil {
			continue
		}
		for _, authority := range l.Bundle {
			if l.Certificate.CheckSignatureFrom(authority) == nil {
				signers = append(signers, authority)
			} else {
				others = append(others, authority)
			}
		}
	}
	return unique(append(signers, others...))
}

func newCAPair(s Settings, name string, now time.Time) (*certificate.Pair, error) {
	commonName := name + " authority of " + now.UTC().Format(time.RFC3339)
	return certificate.NewCA(name, commonName, s.CAValidity, now)
}

// Bundle returns the CAs that are trusted, each once: the signer, the next, the
// old ones.
func (a *CA) Bundle() []*x509.Certificate {
	all := []*x509.Certificate{a.Signer.Certificate}
	if a.Next != nil {
		all = append(all, a.Next.Certificate)
	}
	return unique(append(all, a.Old...))
}

func unique(certificates []*x509.Certificate) (once []*x509.Certificate) {
	for _, c := range certificates {
		if !slices.ContainsFunc(once, c.Equal) {
			once = append(once, c)
		}
	}
	return once
}

// Step is what is to be done with a CA.
type Step int

// Steps of Plan.
const (
	StepWait      Step = iota // nothing, or what was done has to settle
	StepIntroduce             // make the next CA
	StepPromote               // let it sign
	StepRetire                // trust the old ones no more
)

// String returns the step as a word.
func (s Step) String() string {
	return [...]string{"wait", "introduce", "promote", "retire"}[s]
}

// Demand is what is asked of a CA beside certificates that last.
type Demand struct {
	// Rotation is a word of a person's choice: a new one has the CA replaced although its
	// time is not over; empty: none.
	Rotation string
	// Revoked are certificates that nobody uses any more and nobody is to take: the CA
	// that has signed one is replaced.
	Revoked []*x509.Certificate
	// Behind records that somebody goes by the CAs of his start, and they were others: no
	// step is taken that he would not trust.
	Behind bool
}

// Plan returns what is to be done with a CA. Leaves are those of all identities;
// nil: it is not there yet.
func Plan(s Settings, a *CA, leaves []*Leaf, d Demand, now time.Time) Step {
	settled := func(has func(*Leaf) bool) bool {
		return !d.Behind && !slices.ContainsFunc(leaves, func(l *Leaf) bool {
			if l == nil { // it is being made, or cannot be without the key
				return a.Signer.Key != nil
			}
			return l.ChangedAt.IsZero() || now.Sub(l.ChangedAt) < s.PropagationDelay || !has(l)
		})
	}
	switch {
	case a.Next != nil:
		if settled(func(l *Leaf) bool { return slices.ContainsFunc(l.Bundle, a.Next.Certificate.Equal) }) {
			return StepPromote
		}
	case len(a.Old) > 0:
		if settled(func(l *Leaf) bool { return l.Certificate.CheckSignatureFrom(a.Signer.Certificate) == nil }) {
			return StepRetire
		}
	case d.Rotation != "" && d.Rotation != a.Rotation || a.due(s, now) || a.signed(d.Revoked):
		return StepIntroduce
	}
	return StepWait
}

// due reports whether a CA is to be replaced: its time is nearly over, so that it
// would shorten that of its leaves, or it is of a version that did not name what it signs.
// While it is trusted nodes let in callers without a name.
func (a *CA) due(s Settings, now time.Time) bool {
	name, err := certificate.NameOf(a.Signer.Certificate)
	return err != nil || name.Role != certificate.RoleCA || a.Signer.Certificate.NotAfter.Sub(now) < 2*s.LeafValidity+2*s.PropagationDelay
}

// signed reports whether the CA has signed one of these certificates.
func (a *CA) signed(certificates []*x509.Certificate) bool {
	return slices.ContainsFunc(certificates, func(c *x509.Certificate) bool { return c.CheckSignatureFrom(a.Signer.Certificate) == nil })
}

// Introduce returns a CA that has a next one. Errors: those of the random source.
func (a *CA) Introduce(s Settings, name, rotation string, now time.Time) (*CA, error) {
	next, err := newCAPair(s, name, now)
	if err != nil {
		return nil, err
	}
	introduced := *a
	introduced.Next, introduced.Rotation = next, rotation
	return &introduced, nil
}

// Promote returns a CA whose next one signs; without one, it is unchanged.
func (a *CA) Promote() *CA {
	if a.Next == nil {
		return a
	}
	return &CA{Signer: *a.Next, Old: unique(append([]*x509.Certificate{a.Signer.Certificate}, a.Old...)), Rotation: a.Rotation}
}

// Retire returns a CA that trusts no old one.
func (a *CA) Retire() *CA {
	retired := *a
	retired.Old = nil
	return &retired
}
