package access

// Proven is implemented by principals that know what they were authenticated by.
type Proven interface {
	// Proof returns password, token, certificate or oidc, and the token's id, the certificate's
	// name or the issuer. None is a secret. Empty: it is not known.
	Proof() (kind, id string)
}

// ProofOf returns what a principal was authenticated by, as Proven does.
func ProofOf(p Principal) (kind, id string) {
	if c, ok := p.(*confined); ok {
		p = c.Principal
	}
	if proven, ok := p.(Proven); ok {
		return proven.Proof()
	}
	return "", ""
}
