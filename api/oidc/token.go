package oidc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	// TokenBytesMax bounds the text of a token.
	TokenBytesMax = 8 << 10
	keyIDBytesMax = 256
)

// ErrToken is the kind of errors of tokens that are not valid. The message says why, and nothing
// that the token's owner may not know.
var ErrToken = errors.New("the token is not valid")

// Token is a decoded JWT of which nothing is verified.
type Token struct {
	raw       string
	issuer    string
	algorithm string
	keyID     string // empty: none
}

// Issuer returns the issuer that the token names. It only tells whose keys may verify the token.
func (t *Token) Issuer() string { return t.issuer }

// Parse decodes a token and checks what needs no key. Errors: ErrToken.
func Parse(text []byte) (*Token, error) {
	if len(text) > TokenBytesMax {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrToken, TokenBytesMax)
	}
	t := &Token{raw: string(text)}
	const parts = 3
	part := strings.SplitN(t.raw, ".", parts+1)
	if len(part) != parts || bytes.ContainsAny(text, "\r\n") { // which base64 skips
		return nil, fmt.Errorf("%w: it is no JWT", ErrToken)
	}
	header, err := object(part[0])
	if err != nil {
		return nil, fmt.Errorf("%w: its header %w", ErrToken, err)
	}
	if err := t.readHeader(header); err != nil {
		return nil, err
	}
	claims, err := object(part[1])
	if err != nil {
		return nil, fmt.Errorf("%w: its claims %w", ErrToken, err)
	}
	if t.issuer, err = textOf(claims, "iss"); err != nil || t.issuer == "" {
		return nil, fmt.Errorf("%w: it names no issuer", ErrToken)
	}
	return t, nil
}

func (t *Token) readHeader(header map[string]json.RawMessage) (err error) {
	if t.algorithm, err = textOf(header, "alg"); err != nil || !isAlgorithm(t.algorithm) {
		return fmt.Errorf("%w: its algorithm is none of %s", ErrToken, strings.Join(algorithms(), ", "))
	}
	if t.keyID, err = textOf(header, "kid"); err != nil || len(t.keyID) > keyIDBytesMax {
		return fmt.Errorf("%w: its key id is no text of at most %d bytes", ErrToken, keyIDBytesMax)
	}
	kind, err := textOf(header, "typ")
	switch kind = strings.TrimPrefix(strings.ToLower(kind), "application/"); {
	case err != nil || kind != "" && kind != "jwt" && kind != "at+jwt":
		// A token made for something else, such as a logout, is no sign-in (RFC 8725, 3.11).
		return fmt.Errorf("%w: its type is neither JWT nor at+jwt", ErrToken)
	}
	for _, name := range []string{"crit", "zip", "b64"} { // each changes what the rest means
		if _, ok := header[name]; ok {
			return fmt.Errorf("%w: its header has %s, which is not known here", ErrToken, name)
		}
	}
	return nil
}

// object decodes a segment that is one JSON object. A name that stands there twice is an error, as
// two readers might each take another one.
func object(segment string) (map[string]json.RawMessage, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	if err != nil || !utf8.Valid(text) {
		return nil, errors.New("is not in base64url")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("is no JSON object")
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errors.New("is no JSON object")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errors.New("is no JSON object")
		}
		key, _ := name.(string)
		if _, twice := fields[key]; twice {
			return nil, errors.New("has one name twice")
		}
		fields[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("is no JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is more than one JSON object")
	}
	return fields, nil
}

// textOf returns a member that is a text; empty if it is absent.
func textOf(fields map[string]json.RawMessage, name string) (text string, err error) {
	raw, ok := fields[name]
	if !ok {
		return "", nil
	}
	if len(raw) == 0 || raw[0] != '"' {
		return "", fmt.Errorf("%s is no text", name)
	}
	return text, json.Unmarshal(raw, &text)
}
