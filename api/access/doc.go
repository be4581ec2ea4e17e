// Package access defines who calls and what they may do. It is the border between the
// authenticator that knows users (api/auth) and everything that serves them: front ends
// ask Check, and know neither users nor files nor transports.
//
// A caller without a Principal in its context is nobody, who may do nothing. A server with
// authentication off gives every request Anyone, who may do everything; one with it on lets
// no request but those for its health reach a front end without a user's.
package access
