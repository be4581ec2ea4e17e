// Package files writes keys and certificates where only their owner reads them. It does not know
// what stands in them.
package files
