// Package placement runs the loop that decides which node holds which shard. Each
// router has one; the one that is elected through the store acts. It looks at the
// store's newest view, lets shardmap.Plan say what to do next, and writes one step at
// a time by compare-and-swap. What was written before a crash, or by another loop, is
// in the map; so any loop can go on at any moment, and two at once do no harm.
package placement
