package replica

import "fmt"

// Config describes who a Host is, and its bounds. Zero values of bounds and ticks mean
// their defaults.
type Config struct {
	Node        string // this node's id
	Incarnation string // of its data folder
	Run         uint64 // differs in each start of the node, so that peers notice one
	Seed        uint64 // of election timeouts
	// SyncLater means that the driver syncs the States of a Round after Advance, and tells
	// by Host.Synced. Until then the groups whose States they are wait, and no others.
	SyncLater bool

	ElectionTicks  int // a leader unheard of for this long is given up; a campaign follows within twice of it
	HeartbeatTicks int
	HibernateTicks int // of idleness, after which a group stops ticking

	MessageBytesMax     int // entries in one message to one member; a single larger entry goes alone
	InflightBytesMax    int // entries under way to one member of one group
	InflightMessagesMax int
	UncommittedBytesMax int // of one group's log; more proposals are ErrOverloaded
	ProposalsMax        int // of one group without an outcome
	ReadsMax            int // of one group without an outcome
	CacheBytesMax       int // of one group's newest committed entries, kept for members that lag a little
	EntriesBytesMax     int // of all groups, kept or given out and not applied; 0: no bound. See shared.hasRoom
	LaggingBytesMax     int // read from the log for members that lag, as long as that and other envelopes wait (Host.Waiting); 0: no bound
	BacklogBytesMax     int // of one group, given out and not applied (Host.Applied); beyond it a follower takes no entries
	ApplyBytesMax       int // entries of one group given out as Committed in one Round, or at least one entry
}

func (c Config) withDefaults() (Config, error) {
	if c.Node == "" {
		return c, fmt.Errorf("%w: a host needs a node id", ErrArgument)
	}
	for _, d := range []struct {
		value      *int
		byDefault  int
		name, unit string
	}{
		{&c.ElectionTicks, 8, "ElectionTicks", "ticks"},
		{&c.HeartbeatTicks, 2, "HeartbeatTicks", "ticks"},
		{&c.HibernateTicks, 20, "HibernateTicks", "ticks"},
		{&c.MessageBytesMax, 1 << 20, "MessageBytesMax", "bytes"},
		{&c.InflightBytesMax, 8 << 20, "InflightBytesMax", "bytes"},
		{&c.InflightMessagesMax, 64, "InflightMessagesMax", "messages"},
		{&c.UncommittedBytesMax, 32 << 20, "UncommittedBytesMax", "bytes"},
		{&c.ProposalsMax, 64, "ProposalsMax", "proposals"},
		{&c.ReadsMax, 4096, "ReadsMax", "reads"},
		{&c.CacheBytesMax, 256 << 10, "CacheBytesMax", "bytes"},
		{&c.BacklogBytesMax, 32 << 20, "BacklogBytesMax", "bytes"},
		{&c.EntriesBytesMax, 0, "EntriesBytesMax", "bytes"},
		{&c.LaggingBytesMax, 0, "LaggingBytesMax", "bytes"},
		{&c.ApplyBytesMax, 4 << 20, "ApplyBytesMax", "bytes"},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("%w: %s is %d %s", ErrArgument, d.name, *d.value, d.unit)
		}
		if *d.value == 0 {
			*d.value = d.byDefault
		}
	}
	if c.ElectionTicks <= c.HeartbeatTicks {
		return c, fmt.Errorf("%w: ElectionTicks %d must be more than HeartbeatTicks %d", ErrArgument, c.ElectionTicks, c.HeartbeatTicks)
	}
	if c.InflightBytesMax < c.MessageBytesMax {
		return c, fmt.Errorf("%w: InflightBytesMax %d is less than MessageBytesMax %d", ErrArgument, c.InflightBytesMax, c.MessageBytesMax)
	}
	return c, nil
}
