// Package token keeps the tokens that administrators make for programs while a server runs.
//
// A token's secret is told once, when it is made:
//
//	tickmesh_0123456789abcdef_AbCd…   a fixed prefix, the id, and 256 random bits
//
// The prefix is for programs that look for secrets in places where they should not be, the id
// finds the record. What is kept of the random bits is their SHA-256, compared in constant
// time. A hash that is slow on purpose, as passwords need, would protect nothing here: nobody
// can try 2^256 secrets, however fast each try is, and every request would pay for it.
//
// A Registry has the tokens of a Store: a file of a data folder (Folder), or the placement
// store of a cluster (Cluster), whose watch tells all routers of what one has changed. Records
// are changed by comparison, so that a note of the last use can never undo a revocation.
// FORMAT.md has the format of records.
//
// # Bounds
//
// There are at most shardmap.TokensMax tokens. Those that have ended are forgotten after 30
// days, sooner when there is no room for a new one. While the placement store does not answer,
// the tokens that are known hold for a day, and then none does: one of them may have been
// revoked. Of the last use the hour is kept, of at most 32 tokens in a minute, by one write.
package token
