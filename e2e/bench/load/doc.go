// Package load sends prebuilt requests over many connections and measures how
// long each takes. One goroutine serves one connection; requests are raw bytes
// and answers are parsed just enough to find their end, so that the client costs
// a small part of what a server costs.
package load
