// Package audit writes down who did what: sign-ins that failed, requests that were refused,
// changes of data other than writes of points, and administration; on request queries too.
//
// An Event is one line of JSON. Record puts it into a queue of bounded length and never waits:
// one goroutine writes, and what finds the queue full is counted and left out. A Request gathers
// what one request does while it runs, wherever that is known, and travels in its context.
//
// Events hold no query strings, bodies, headers, passwords or tokens.
package audit
