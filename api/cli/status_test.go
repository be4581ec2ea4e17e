package cli

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/client"
)

func TestMovesAheadInWords(t *testing.T) {
	for want, c := range map[string]struct {
		underWay int
		ahead    client.Ahead
	}{
		"0": {0, client.Ahead{}}, "2": {2, client.Ahead{}},
		"4 of 57 under way, 1.0 KiB to copy, about 3m10s": {4, client.Ahead{Moves: 57, TotalBytes: 3 << 10, DoneBytes: 2 << 10, RemainingMs: 190_000}},
		"2 of 2 under way": {2, client.Ahead{Moves: 1}},
	} {
		if got := movesAhead(c.underWay, &c.ahead); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
