// Package access says who calls and what they may do. It is the border between the
// authority that knows users (router/auth) and everything that serves them: front ends
// ask Check, and know neither users nor files nor transports.
//
// Without a Principal in its context a caller is Anyone, who may do everything: that is a
// server with authentication off. A server with authentication on lets no request reach a
// front end without one.
package access
