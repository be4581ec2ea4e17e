// Package years plays a database that lives long, in little time: the product's node, with its own
// maintenance, on a clock that goes as fast as the node can follow. Pods come and go, each with a
// series of its own; devices stay; some of them write late and in disorder; old data is filled in, and
// written again; ranges, series and whole metrics are deleted; retention is said by rules that change
// twice a week; readers stand for a day; a neighbour takes the rest of the disk for hours; the process
// is killed, and the machine loses its power.
//
// After each day all answers are compared with a slow and obvious model of what was acknowledged and
// what retention keeps (Oracle): samples, windows, newest samples, series of a range of time, and
// digests. What the node takes of memory, files and disk, how it starts, and what fixed questions
// cost is written down (Figures). At the end the last week's figures are compared with the second week's:
// what is claimed to follow live and retained data must, see claims.
//
//	go test ./e2e/years
//	go test ./e2e/years -args -seed 7
//	go test ./e2e/years -timeout 2h -args -long
//	go test ./e2e/years -timeout 24h -args -year
//
// The short form has a disk in memory that loses what was not synced in a power cut; the long forms have
// a real folder, where a cut of power becomes a kill. RESULTS.md has figures; -results FOLDER writes such a table and the pictures.
package years
