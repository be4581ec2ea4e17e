package auth

import (
	"bytes"
	"encoding/base64"
)

// Words of the command `auth`, which are no names of users.
const (
	wordToken = "token"
	wordBasic = "basic"
)

// headerBytesMax bounds a header Authorization.
const headerBytesMax = 8 << 10

// shown are the credentials of a header, in whatever form the client sent them.
type shown struct {
	token          []byte // empty: none
	user, password []byte // empty user: none
}

// parseHeader reads a header Authorization: Basic (RFC 7617), Bearer (RFC 6750), or
// InfluxDB's Token, whose text is a token or user:password. What it returns lies in the
// header or in room. False: it is none of these.
func parseHeader(header []byte, room *[basicBytesMax]byte) (s shown, ok bool) {
	scheme, rest, _ := bytes.Cut(bytes.TrimSpace(header), []byte(" "))
	rest = bytes.TrimLeft(rest, " ")
	if len(rest) == 0 || bytes.ContainsAny(rest, " \t") {
		return s, false
	}
	switch {
	case bytes.EqualFold(scheme, []byte("Basic")):
		if base64.StdEncoding.DecodedLen(len(rest)) > len(room) {
			return s, false
		}
		n, err := base64.StdEncoding.Decode(room[:], rest)
		if err != nil || !canonical(room[:n], rest) {
			return s, false
		}
		s.user, s.password, ok = bytes.Cut(room[:n], []byte(":"))
		return s, ok && len(s.user) > 0
	case bytes.EqualFold(scheme, []byte("Bearer")):
		s.token = rest
		return s, true
	case bytes.EqualFold(scheme, []byte("Token")):
		s.token = rest
		if user, password, found := bytes.Cut(rest, []byte(":")); found {
			s.user, s.password = user, password
		}
		return s, true
	}
	return s, false
}

// basicBytesMax bounds what Basic has: a name, a colon and a password, with room to spare.
const basicBytesMax = 512

// canonical reports whether a text is the one way to write bytes in base64.
func canonical(decoded, text []byte) bool {
	var again [(basicBytesMax + 2) / 3 * 4]byte
	n := base64.StdEncoding.EncodedLen(len(decoded))
	base64.StdEncoding.Encode(again[:n], decoded)
	return bytes.Equal(again[:n], text)
}
