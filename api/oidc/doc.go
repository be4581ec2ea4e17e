// Package oidc verifies bearer tokens that are JSON Web Tokens (RFC 7519) of OpenID Connect
// issuers. It depends on neither users nor rights: it returns the claims of a token whose signature,
// issuer, audience and times are right.
//
// # Keys
//
// An Issuer fetches its key set (RFC 7517) by discovery, in Run alone: every five minutes, and
// when a token names a key that is not in the set, at most once per RefreshInterval however many
// such tokens come. When a fetch fails the last set stays in use for KeysAgeMax. Discovery and key
// sets are read over https, over http only from issuers on the loopback; redirects are refused and
// bodies and times are bounded. What a token says of keys but its key id (jku, jwk, x5u) is ignored.
//
// # Algorithms
//
// RSA (PKCS #1 v1.5 and PSS), ECDSA and Ed25519 signatures are taken, each with keys of its own
// type and curve only. There is neither `none` nor HMAC, so a public key is never a secret.
package oidc
