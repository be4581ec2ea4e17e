// Package cli has the commands that are clients of the public API: they ask a cluster, or look at
// backups, and write what they find for people or programs. Commands lists them.
//
// They know the public API alone: no node, no router, no placement store. The one server that a
// command needs, to try a restore in, is given to Commands.
package cli
