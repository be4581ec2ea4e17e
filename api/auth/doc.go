// Package auth is the authenticator of a process: it has users, their passwords, tokens and
// certificates, and what each of them may do with which database.
//
// All of it comes from one YAML file (README.md), which is followed: see package rulefile.
// Passwords are in it as bcrypt's hashes and tokens as their SHA-256, so that whoever reads
// the file cannot enter with it.
//
// # Cost
//
// A password costs one bcrypt, 50 to 150 ms, once: verified credentials are remembered, by a
// keyed hash of name and password, until the file changes. Checks run one after the other on
// small machines and wait in a bounded queue (gate.go) in which addresses that have shown a
// right password come first and those that failed last; after a wrong password these wait
// three times as long as the check took. So guessing costs the process a bounded part of its
// processors whatever is sent, and honest callers do not wait for it. A wrong password that
// comes again costs no check at all.
//
// # Taking back
//
// A Principal outlives its file: connections and streams last. It looks at the rules of the
// day each time it is asked, and may do nothing once its user is gone or the very password
// hash, token or certificate name that it came in by is not in the file any more.
//
// # Issuers
//
// Tokens of OpenID Connect issuers are verified by package oidc; the file maps their claims to
// rights. A verified token is remembered as the file's are, and its expiry and key are looked at
// each time its Principal is asked.
package auth
