// Package commit decides what a node does next, as functions of what it is told: whether a
// replica that the map does not name may end. It has no goroutine, clock, file or channel.
package commit
