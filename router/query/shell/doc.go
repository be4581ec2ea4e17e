// Package shell is what the HTTP handlers of all query languages share: how a query is let
// in and ends, how consistent its reads are, of which kind an error is, what is counted and
// logged. A language decides what a request says and how answers and errors look to its
// clients. Requests of other origins, and their preflights, are judged before they come here.
//
// The package depends on no language, and writes no body.
package shell
