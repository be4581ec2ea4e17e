//go:build invariants

package storage

// invariants makes the engine check what its bounds promise.
const invariants = true
