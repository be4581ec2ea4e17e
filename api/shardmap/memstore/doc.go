// Package memstore is a shardmap.Store in memory: for tests, and for simulations,
// which need it to have no goroutine and no clock of its own. A Server stands for the
// store's servers, each Store for the connection of one process to them.
//
// Leases end when the test says so: Store.SetReachable cuts a process off, and
// Server.ExpireLeases ends the leases of those that are cut off. What a change means
// for watches is in their channels when the call that made it returns.
package memstore
