// Package target starts the servers that are measured, TickMesh and its peers,
// and speaks each one's query language. A Target is only a description: what to
// run, which requests ask what, what their answers say; Server is a running one.
package target
