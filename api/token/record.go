package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/secret"
)

// Versions of records. One with a credential is of the second, so that no program takes it which
// does not look at that.
const (
	format           = 1
	formatCredential = 2
)

// ErrFormat marks a record, or a file of records, that cannot be read.
var ErrFormat = errors.New("not a record of a token")

// record is a token as it is kept: see FORMAT.md.
type record struct {
	Format     int               `json:"format"`
	Digest     string            `json:"digest"`
	Name       string            `json:"name"`
	Creator    string            `json:"creator"`
	Credential string            `json:"credential,omitempty"`
	Issuer     string            `json:"issuer,omitempty"`
	Claims     [][2]string       `json:"claims,omitempty"`
	Lineage    []string          `json:"lineage,omitempty"`
	Rights     map[string]string `json:"rights"`
	CreatedMs  int64             `json:"created_ms"`
	ExpiresMs  int64             `json:"expires_ms"`
	UsedMs     int64             `json:"used_ms,omitempty"`
	RevokedMs  int64             `json:"revoked_ms,omitempty"`
	RevokedBy  string            `json:"revoked_by,omitempty"`
}

// encode returns the record of a token.
func (t *Token) encode() (string, error) {
	r := record{
		Format: format, Digest: t.Digest.String(), Name: t.Name, Creator: t.Creator.User, Issuer: t.Creator.Issuer, Lineage: t.Lineage,
		Rights: map[string]string{}, CreatedMs: t.Created.UnixMilli(), ExpiresMs: t.Expires.UnixMilli(), RevokedBy: t.RevokedBy,
	}
	if t.Creator.Credential != (secret.Digest{}) {
		r.Format, r.Credential = formatCredential, t.Creator.Credential.String()
	}
	for _, c := range t.Creator.Claims {
		r.Claims = append(r.Claims, [2]string{c.Name, c.Value})
	}
	for database, right := range t.Rights {
		r.Rights[access.Display(database)] = right.String()
	}
	if !t.Used.IsZero() {
		r.UsedMs = t.Used.UnixMilli()
	}
	if !t.Revoked.IsZero() {
		r.RevokedMs = t.Revoked.UnixMilli()
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(r)
	return string(bytes.TrimSpace(text.Bytes())), err
}

// timeMsMax bounds the times of a record: the year 9999.
const timeMsMax = 253_402_300_799_000

// decode reads the record of a token. Errors: ErrFormat.
func decode(id, text string) (*Token, error) {
	r, err := decodeRecord(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, id, err)
	}
	t := &Token{
		ID: id, Name: r.Name, Creator: Creator{User: r.Creator, Issuer: r.Issuer}, Lineage: r.Lineage, Rights: Rights{},
		Created: time.UnixMilli(r.CreatedMs).UTC(), Expires: time.UnixMilli(r.ExpiresMs).UTC(), RevokedBy: r.RevokedBy,
	}
	for _, c := range r.Claims {
		t.Creator.Claims = append(t.Creator.Claims, Claim{c[0], c[1]})
	}
	if r.UsedMs > 0 {
		t.Used = time.UnixMilli(r.UsedMs).UTC()
	}
	if r.RevokedMs > 0 {
		t.Revoked = time.UnixMilli(r.RevokedMs).UTC()
	}
	var ok bool
	if t.Digest, ok = secret.ParseDigest(r.Digest); !ok {
		return nil, fmt.Errorf("%w: %s: the digest has not %d hexadecimal digits", ErrFormat, id, secret.DigestDigits)
	}
	if t.Creator.Credential, ok = secret.ParseDigest(r.Credential); ok != (r.Format == formatCredential) || !ok && r.Credential != "" {
		return nil, fmt.Errorf("%w: %s: format %d with the credential %q", ErrFormat, id, r.Format, r.Credential)
	}
	for database, word := range r.Rights {
		right, ok := access.ParseRight(word)
		if !ok {
			return nil, fmt.Errorf("%w: %s: the right %q", ErrFormat, id, word)
		}
		t.Rights[access.Canonical(database)] = right
	}
	if err := t.validate(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, id, err)
	}
	return t, nil
}

func decodeRecord(text string) (r record, err error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return r, err
	}
	if head.Format != format && head.Format != formatCredential {
		return r, fmt.Errorf("its format is %d, this version reads %d and %d", head.Format, format, formatCredential)
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return r, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("there is something behind it")
	}
	for _, ms := range []int64{r.CreatedMs, r.ExpiresMs, r.UsedMs, r.RevokedMs} {
		if ms < 0 || ms > timeMsMax {
			return r, fmt.Errorf("the time %d", ms)
		}
	}
	return r, nil
}
