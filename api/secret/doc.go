// Package secret is the form of the secrets that the project makes for programs, the tokens: how
// one is drawn, and what is kept of it instead. A person's password is no such secret, as its hash
// has to be slow.
package secret
