// Package retention decides which samples are too old to be kept: those before the cut of
// their whole shard, or of the first rule that matches their series.
//
// Cuts are a list of rules with their cuts, as an entry brings it. A Table is what a shard knows
// of such lists; it does not change itself. A Snapshot has the cuts of all shards at one moment.
//
// The package depends on no clock, no file and no shard: cuts are numbers that entries bring, and the
// keys of series are asked for through an interface.
package retention
