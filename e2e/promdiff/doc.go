// Package promdiff makes data and PromQL expressions at random from a seed, and compares
// what two servers answer: ours and a slow storage under the same engine, in one process;
// ours and a real Prometheus, as processes that were sent the same remote writes.
package promdiff
