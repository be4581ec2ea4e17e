package auth

import (
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/token"
)

// BenchmarkRemembered is what authentication adds to each request.
func BenchmarkRemembered(b *testing.B) {
	w := newWorld(b, people(b))
	c := access.Credentials{Authorization: []byte(basic("ann", "ann's: word"))}
	b.ReportAllocs()
	for b.Loop() {
		p, err := w.Authenticate(b.Context(), c)
		if err != nil || !p.May("metrics", access.Write) {
			b.Fatal(err)
		}
	}
}

// BenchmarkTokens is what tokens cost each request: one of the file, and one that was made.
func BenchmarkTokens(b *testing.B) {
	w, _ := newMaker(b, ownersFile())
	made, _ := w.make(b, "Bearer root", token.Rights{"a": access.Write}, time.Hour)
	for name, secret := range map[string]string{"file": "ann", "made": made} {
		b.Run(name, func(b *testing.B) {
			c := access.Credentials{Authorization: []byte("Bearer " + secret)}
			b.ReportAllocs()
			for b.Loop() {
				p, err := w.Authenticate(b.Context(), c)
				if err != nil || !p.May("a", access.Write) {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPassword is what a password costs once.
func BenchmarkPassword(b *testing.B) {
	hash, err := Hash("pass word")
	if err != nil {
		b.Fatal(err)
	}
	g := newGate(nil)
	for b.Loop() {
		if err := g.check(b.Context(), "", hash, "pass word", 10); err != nil {
			b.Fatal(err)
		}
	}
}
