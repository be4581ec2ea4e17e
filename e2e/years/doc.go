// Package years plays a database that lives long, in little time: the product's node, with its own
// maintenance, on a clock that goes as fast as the node can follow. Pods come and go, each with a
// series of its own; devices stay; some of them write late and in disorder; old data is filled in, and
// written again; ranges, series and whole metrics are deleted; rules that change twice a week
// say how long samples are kept, and of one metric how long all of them are, before rollups of hours go on alone; readers stand for a day; a
// neighbour takes the rest of the disk for hours; the process is killed, and the machine loses its power. Each week two incremental backups
// are made by the product's command, the second one when nothing has changed, and that is restored into an empty node.
//
// With -nodes 3 it is the life of a cluster: three nodes in one process, each with a copy of every shard, a disk of its own, and the
// virtual clock; elections go by the real one. Each day's events happen to another node, writes that are acknowledged meanwhile
// have to be there, the copies are compared with each other by the nodes themselves, and with the model each for itself. Routers,
// the network and the placement of shards are not played.
//
// After each day all answers are compared with a slow and obvious model of what was acknowledged and
// what retention keeps (Oracle): samples, windows, newest samples, series of a range of time, and
// digests. What the node takes of memory, files and disk, how it starts, and what fixed questions
// cost is written down (Figures). At the end the last week's figures are compared with the second week's, of a life of 90 days or
// more the last month's with the second month's: what is claimed to follow live and retained data must, see claims.
//
//	go test ./e2e/years
//	go test ./e2e/years -args -seed 7
//	go test ./e2e/years -timeout 2h -args -long
//	go test ./e2e/years -timeout 24h -args -year
//	go test ./e2e/years -timeout 2h -args -nodes 3
//
// The short form has a disk in memory that loses what was not synced in a power cut; the long forms have
// a real folder, where a cut of power becomes a kill, unless -memory-disk is said; -quiet claims times, too. RESULTS.md has figures; -results FOLDER writes such a table and the pictures.
package years
