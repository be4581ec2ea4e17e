// Package vfs is the seam between the storage engine and the file system.
//
// FS and File are what the engine needs of a disk and no more. There are two
// implementations, held to one contract by one test suite: OS, the real thing
// (Linux), and MemFS, which lives in memory and can say what a power cut would
// have left of it (CrashClone). Two wrappers go around either: Faults injects
// errors by rule, Counting counts what is written and synced.
//
// # Durability
//
// The contract is the weakest that real file systems give, so that code which is
// right on MemFS is right everywhere:
//
//   - What WriteAt, Truncate or Preallocate did is durable once a later Sync of
//     any handle of that file has returned nil. Before that each block may or may
//     not have reached the disk, in any order.
//   - That a name exists, is gone or was renamed is durable once a later SyncDir
//     of its directory has returned nil. Sync of a file does not do that.
//   - MkdirAll is durable when it returns nil.
//   - After a Sync that failed, nothing since the Sync before it may be taken as
//     durable, even if a later Sync succeeds (the kernel drops the error and may
//     drop the pages; P. Rebello et al., "Can Applications Recover from fsync
//     Failures?", USENIX ATC 2020).
//
// # Mapped reads
//
// A mapping shows the file as it is, so a file that another program truncates,
// or a disk that cannot read a block, makes a plain load fault. Guard turns such
// a fault into a *FaultError of the caller. Every read of a mapping must happen
// inside Guard, must hold no lock that others need, and must copy out what it
// wants to hand to a system call.
package vfs
