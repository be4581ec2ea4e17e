package pki_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/operator/pki"
)

func TestPlan(t *testing.T) {
	s := pki.Defaults()
	first := authority(t)
	introduced, err := first.Introduce(s, "demo", "word", epoch)
	if err != nil {
		t.Fatal(err)
	}
	promoted := introduced.Promote()
	keyless := &pki.CA{Signer: certificate.Pair{Certificate: first.Signer.Certificate}, Next: introduced.Next}
	identity := certificate.Identity{CommonName: "node", Hosts: []string{"a"}}
	old := leaf(t, first, identity)
	trusting := old.Trust(introduced, epoch)
	unknown := old.Trust(introduced, time.Time{})
	fresh := leaf(t, promoted, identity)
	word, again := pki.Demand{Rotation: "word"}, pki.Demand{Rotation: "again"}
	for name, test := range map[string]struct {
		authority *pki.CA
		leaves    []*pki.Leaf
		demand    pki.Demand
		after     time.Duration
		want      pki.Step
	}{
		"nothing to do":               {first, []*pki.Leaf{old}, pki.Demand{}, s.PropagationDelay, pki.StepWait},
		"asked for":                   {first, []*pki.Leaf{old}, word, 0, pki.StepIntroduce},
		"its time is nearly over":     {first, []*pki.Leaf{old}, pki.Demand{}, s.CAValidity - 2*s.LeafValidity, pki.StepIntroduce},
		"all trust the next":          {introduced, []*pki.Leaf{trusting, trusting}, word, s.PropagationDelay, pki.StepPromote},
		"one was just told":           {introduced, []*pki.Leaf{trusting, old.Trust(introduced, epoch.Add(1))}, word, s.PropagationDelay, pki.StepWait},
		"one was not told":            {introduced, []*pki.Leaf{trusting, old}, word, s.PropagationDelay, pki.StepWait},
		"one is missing":              {introduced, []*pki.Leaf{trusting, nil}, word, s.PropagationDelay, pki.StepWait},
		"one was told nobody knows":   {introduced, []*pki.Leaf{trusting, unknown}, word, s.PropagationDelay, pki.StepWait},
		"missing, and cannot be made": {keyless, []*pki.Leaf{trusting, nil}, word, s.PropagationDelay, pki.StepPromote},
		"all were made anew":          {promoted, []*pki.Leaf{fresh}, word, s.PropagationDelay, pki.StepRetire},
		"made anew just now":          {promoted, []*pki.Leaf{fresh}, word, s.PropagationDelay - 1, pki.StepWait},
		"one is of the old one":       {promoted, []*pki.Leaf{fresh, trusting}, word, s.PropagationDelay, pki.StepWait},
		"one of the new is missing":   {promoted, []*pki.Leaf{fresh, nil}, word, s.PropagationDelay, pki.StepWait},
		"the same word again":         {promoted.Retire(), []*pki.Leaf{fresh}, word, s.PropagationDelay, pki.StepWait},
		"another word":                {promoted.Retire(), []*pki.Leaf{fresh}, again, s.PropagationDelay, pki.StepIntroduce},
		"one is revoked":              {first, []*pki.Leaf{old}, pki.Demand{Revoked: []*x509.Certificate{old.Certificate}}, 0, pki.StepIntroduce},
		"it is of the next, not yet":  {introduced, []*pki.Leaf{trusting}, pki.Demand{Revoked: []*x509.Certificate{old.Certificate}}, s.PropagationDelay, pki.StepPromote},
		"it is of the old one":        {promoted, []*pki.Leaf{fresh}, pki.Demand{Revoked: []*x509.Certificate{old.Certificate}}, s.PropagationDelay, pki.StepRetire},
		"it is of nobody any more":    {promoted.Retire(), []*pki.Leaf{fresh}, pki.Demand{Revoked: []*x509.Certificate{old.Certificate}}, s.PropagationDelay, pki.StepWait},
		"one does not know the next":  {introduced, []*pki.Leaf{trusting}, pki.Demand{Behind: true}, s.PropagationDelay, pki.StepWait},
		"another word in the middle":  {promoted, []*pki.Leaf{fresh}, again, s.PropagationDelay, pki.StepRetire},
	} {
		if got := pki.Plan(s, test.authority, test.leaves, test.demand, epoch.Add(test.after)); got != test.want {
			t.Errorf("%s: %v, expected %v", name, got, test.want)
		}
	}
}
