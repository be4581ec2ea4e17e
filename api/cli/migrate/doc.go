// Package migrate copies the samples of another database that runs, over its public API, and compares both sides
// afterwards.
//
// The work is cut into steps: a range of time and one name, a metric or a measurement, in the order of time. A Source
// visits the samples of a step as they arrive; nobody holds a step as a whole. A checkpoint in a file says which steps
// are done, so that a migration that was interrupted goes on there. A step that is done twice changes nothing, as a
// sample that is written again stays what it is.
//
// # Invariants
//
//   - A step is in the checkpoint only when the cluster has answered for all of its samples.
//   - A step that fails is tried again from its beginning, so many times, with growing waits.
//   - A step that one of the two sides finds too large is halved.
//   - What a source has and the cluster cannot store (native histograms, text) is counted and reported.
//   - The check reads both sides anew: number, sum and a fingerprint of the samples of each step.
package migrate
