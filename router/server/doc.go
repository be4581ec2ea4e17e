// Package server is what clients talk to: the listeners of a router or of a standalone server, the
// dialects behind them, who may call, the audit log and the banner. Settings has its flags, and Serve
// runs it before a Backend.
//
// It does not know what the Backend is: a node in this process, or a cluster.
package server
