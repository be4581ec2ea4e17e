package auth

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
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

// BenchmarkPassword is what a password costs once.
func BenchmarkPassword(b *testing.B) {
	hash, err := Hash("pass word")
	if err != nil {
		b.Fatal(err)
	}
	g := newGate()
	for b.Loop() {
		if err := g.check(b.Context(), "", hash, "pass word", 10); err != nil {
			b.Fatal(err)
		}
	}
}
