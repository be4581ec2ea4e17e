// Package rescue is `tickmesh rescue-map`: it asks the nodes which groups they have and puts the
// shard map that follows from that into the placement store. It is no client of the public API, which
// cannot answer for a cluster without a map.
package rescue
