// Package model knows what a server may answer: which writes were sent to it, which of them it
// has acknowledged, and what was deleted. It decides what clients write next, words it, and
// compares answers, so that
//
//   - every acknowledged sample is there, once, with its value;
//   - nothing that was never sent is there;
//   - what was overwritten or deleted, and acknowledged, does not come back.
//
// Each client owns its series and sends one request after the other, so the order of its
// writes is known. A value is a function of the series, the time and the number of the write to
// them, so that an answer can be traced to the write that it comes from, and anything else is
// recognised as made up.
//
// # What is not known
//
// A request that was not answered, or answered by an error, may have been applied or not,
// sample by sample. It stays in doubt until it is known to be over, or a check has seen what
// became of it, which is from then on binding. Of a cluster no such request is ever known to
// be over: a suspended process can hold it for as long as it likes. So a point in doubt is not
// written again, as nothing could be said about it. Of one server that is ended before each
// check (Config.ServerEnds) a request is over when it is answered, whatever the answer says, and
// at the latest with the server.
//
// The package knows nothing of connections, processes and faults.
package model
