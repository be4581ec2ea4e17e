package auth

import (
	"encoding/base64"
	"strings"
)

// Words of the command `auth`, which are no names of users.
const (
	wordToken = "token"
	wordBasic = "basic"
)

// headerBytesMax bounds a header Authorization.
const headerBytesMax = 1 << 10

// shown is what a header says.
type shown struct {
	token          string // empty: none
	user, password string // empty user: none
}

// parseHeader reads a header Authorization: Basic (RFC 7617), Bearer (RFC 6750), or
// InfluxDB's Token, whose text is a token or user:password. False: it is none of these.
func parseHeader(header string) (s shown, ok bool) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	rest = strings.TrimLeft(rest, " ")
	if rest == "" || strings.ContainsAny(rest, " \t") {
		return s, false
	}
	switch {
	case strings.EqualFold(scheme, "Basic"):
		text, err := base64.StdEncoding.Strict().DecodeString(rest)
		if err != nil {
			return s, false
		}
		s.user, s.password, ok = strings.Cut(string(text), ":")
		return s, ok && s.user != ""
	case strings.EqualFold(scheme, "Bearer"):
		s.token = rest
		return s, true
	case strings.EqualFold(scheme, "Token"):
		s.token = rest
		s.user, s.password, _ = strings.Cut(rest, ":")
		if s.user == rest {
			s.user = ""
		}
		return s, true
	}
	return s, false
}
