package command

import (
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
)

// moveSettings bound what moves of shards cost a node.
type moveSettings struct{ moveRate settings.Bytes }

// Half of what a good SD card writes in sequence, and a seventh of a gigabit network: the
// rest is for the writes and queries that go on meanwhile.
const (
	moveRateDefault = 16 << 20
	moveRateMin     = 64 << 10 // less, and connections would be given up as dead
)

func (s *moveSettings) Define(f *pflag.FlagSet) {
	s.moveRate = moveRateDefault
	f.Var(&s.moveRate, "move-rate", "most bytes a second that the node sends to others of its shards, and most that it fetches from them; 0: no bound")
	settings.Group(f, settings.HeadingMoves, "move-rate")
}

func (s *moveSettings) Validate(v *settings.Validation) {
	if s.moveRate != 0 {
		v.SizeBetween("move-rate", s.moveRate, moveRateMin, settings.BytesMax)
	}
}
