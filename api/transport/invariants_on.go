//go:build invariants

package transport

// invariants makes what uses a buffer after it was given back read zeroes.
const invariants = true
