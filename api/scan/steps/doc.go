// Package steps evaluates functions of PromQL over samples: what scan.Steps asks for. Whoever
// has the samples runs it, so that one value travels instead of those of a range: storage in
// the process of a standalone server, a node for its routers, and a router for what a node of
// an older version sends. All run the same operations in the same order, so that a result has
// the same bits wherever it was made.
package steps
