// Package archive keeps backups of a cluster at a target: a folder, or a bucket of
// S3-compatible storage. What was written comes back bit by bit, NaN with its payload
// too. FORMAT.md has the bytes. WithKeys encrypts
// and signs them.
//
// All backups of a target share objects, whose names are their checksums. A backup is a
// manifest that names an index, which says which parts of which objects are samples of
// which metric in which range of time: units. A new backup takes a unit from an earlier one when
// the cluster has the same samples there now, which a Digest tells; so it neither reads nor
// writes what has not changed.
//
// # What keeps objects that are needed
//
// Nothing locks a target, as S3 has no locks. Instead:
//
// A1. An object is complete and durable before a manifest or an index names it, and an
// index before a manifest does (Store.Put is atomic).
//
// A2. A writer names the objects that it may take from earlier backups in its own
// manifest, as held, and only then looks whether those backups are still there. Prune
// deletes manifests first, and only then looks which objects the others name or hold. So
// either the writer finds the backup gone and does without it, or prune finds its objects
// held.
//
// A3. A writer's manifest is there before its first object. Prune lists objects first, and
// manifests after that. So when no manifest is that of an unfinished backup, whoever wrote
// a listed object has finished, and the object is needed only if a manifest names it. Else
// prune keeps an object that none names until it is older than a grace, which is longer
// than a writer takes from an object to the next manifest. A writer never relies on an
// object that it has not held or written itself, and no two write the same one.
//
// A4. Before a backup is complete its writer looks for all of its objects once more.
package archive
