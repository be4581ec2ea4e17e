package oidc

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/oidc/oidctest"
)

// A fetch answers all who asked for one before it began, whatever it was begun by.
func TestFetchAnswersWhoAsked(t *testing.T) {
	w := newWorld(t, oidctest.NewKey(t, "ES256", "k"))
	w.wanted <- struct{}{}
	if err := w.fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.wanted) != 0 {
		t.Error("another fetch would follow at once")
	}
}
