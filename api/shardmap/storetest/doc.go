// Package storetest is the contract of shardmap.Store as tests. Every implementation
// must pass Run.
package storetest
