// Package pki makes and renews the certificates inside a cluster: one CA, and a
// leaf for each identity. Everything is a value; the time is an argument; decisions are
// pure functions of what the Secrets have.
//
// A holder may keep its key to itself (Holder.Key): then only its public key is certified, and
// its leaf has none.
//
// A leaf is renewed when a third of its time is left. The CA is replaced in four
// writes, so that all connections work at every moment, though each pod sees a Secret
// up to Settings.PropagationDelay after it was written:
//
//  1. Introduce: there is a next CA. Every leaf's Secret gets it into its ca.crt,
//     beside the present one, which goes on signing.
//  2. Promote, when all have had that for PropagationDelay: the next one signs. Every leaf is made
//     anew by it. Both stay trusted.
//  3. Retire, when all have had that for PropagationDelay: the old one is trusted no more, and
//     leaves the ca.crt of every leaf.
//
// So a pod holds the Secrets of one of two neighbouring steps, and those of neighbouring
// steps trust each other. A pod that sees no new Secrets for longer than PropagationDelay, as on a
// machine that is cut off, may be refused until it does.
//
// A CA whose key is lost is replaced in the same way: its leaves go on until the
// next one signs. When the Secret of a leaf is deleted, too, at the same time, its pods
// may be refused until they see the new one.
package pki
