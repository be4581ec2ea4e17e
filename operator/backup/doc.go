// Package backup decides what to do next for a TickMeshBackup, a TickMeshRestore and a
// TickMeshBackupSchedule. Functions are pure: given the object, what is seen of its Jobs,
// and the time, they give the next action and the status. So any operator goes on where
// another one was killed.
//
// What a Job has done is told by its report, which the commands of the program write as
// the termination message of its container.
package backup
