//go:build !invariants

package storage

// invariants is off: see the file of the build tag.
const invariants = false
