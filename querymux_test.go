package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// 0 says on flags that there is no bound, of queries at once too.
func TestQueryLimitsOfZero(t *testing.T) {
	s := frontSettings{}
	q := s.newQueries(&backend{}, slog.New(slog.DiscardHandler), newRegistry())
	for range 1000 {
		_, entry, err := q.ledger.Begin(t.Context(), ledger.Query{Text: "any"})
		if err != nil {
			t.Fatal(err)
		}
		defer entry.End(nil)
	}
	if running := len(q.ledger.Running()); running != 1000 {
		t.Errorf("%d queries are running", running)
	}
	if orNone(3) != 3 || orNone(time.Duration(0)) < 290*365*24*time.Hour {
		t.Error("bounds are not what they are")
	}
}
