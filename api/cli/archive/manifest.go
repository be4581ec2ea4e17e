package archive

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"strings"
)

// Formats of backups. FormatKeyed is written only for what is encrypted or signed, and FormatHours for what has units of hours, so that
// programs that do not know them go on with all others.
const (
	Format      = 2
	FormatKeyed = 3
	FormatHours = 4
)

const (
	backupsPrefix    = "backups/"
	manifestName     = "/manifest.json"
	manifestBytesMax = 128 << 10 // as it is stored
	// NameBytesMax bounds the name of a backup.
	NameBytesMax = 128
)

// Manifest describes what a backup is. It is small, so that all can be listed.
type Manifest struct {
	Format     int    `json:"format"`
	Name       string `json:"name"`
	Cluster    string `json:"cluster"`     // its name
	StartedMs  int64  `json:"started_ms"`  // milliseconds since 1970 UTC: the backup has every write that was acknowledged before
	FinishedMs int64  `json:"finished_ms"` // 0: the backup is not complete
	Samples    int64  `json:"samples"`
	Series     int64  `json:"series"` // that have samples
	Units      int64  `json:"units"`
	Hours      int64  `json:"hours,omitempty"` // units among them of hours: see Unit.Hours
	Bytes      int64  `json:"bytes"`           // of all of its objects, those that it shares with others too
	Written    int64  `json:"written_bytes"`   // of those that were written for it
	Index      Object `json:"index"`
	// Recipients tell the sets of recipients apart for whom its objects, its index and the
	// manifest are encrypted; none: they are not.
	Recipients []string `json:"recipients,omitempty"`
	Signature  []byte   `json:"signature,omitempty"` // Ed25519, of the manifest without it and with 0 in the next field
	CRC32C     uint32   `json:"crc32c"`              // of the manifest with 0 in this field
}

var backupName = regexp.MustCompile(`^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$`)

// CheckName returns what is wrong with the name of a backup. Errors: ErrTarget.
func CheckName(name string) error {
	if len(name) > NameBytesMax || !backupName.MatchString(name) {
		return fmt.Errorf("%w: %q cannot be the name of a backup: expected at most %d small letters, digits, and - . _ inside", ErrTarget, name, NameBytesMax)
	}
	return nil
}

func manifestKey(name string) string { return backupsPrefix + name + manifestName }

// nameOf returns the name of the backup whose manifest has a key.
func nameOf(key string) (name string, ok bool) {
	name, ok = strings.CutSuffix(strings.TrimPrefix(key, backupsPrefix), manifestName)
	return name, ok && CheckName(name) == nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // made once, by the library

func (m Manifest) format() int {
	if m.Hours > 0 {
		return FormatHours
	}
	if len(m.Recipients) > 0 || len(m.Signature) > 0 {
		return FormatKeyed
	}
	return Format
}

// unsigned returns what a signature is of.
func (m Manifest) unsigned() ([]byte, error) {
	m.CRC32C, m.Signature = 0, nil
	return json.Marshal(m)
}

func (m Manifest) encode() ([]byte, error) {
	m.CRC32C = 0
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	m.CRC32C = crc32.Checksum(text, castagnoli())
	text, err = json.Marshal(m)
	return append(text, '\n'), err
}

func decodeManifest(name string, text []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if m.Format < Format || m.Format > FormatHours {
		return nil, fmt.Errorf("%w: format %d, not %d to %d; a later version of tickmesh reads it", ErrFormat, m.Format, Format, FormatHours)
	}
	again, err := m.encode()
	if err != nil || !bytes.Equal(again, text) {
		return nil, fmt.Errorf("%w: its checksum does not fit", ErrDamaged)
	}
	if m.Name != name {
		return nil, fmt.Errorf("%w: it is that of backup %q", ErrDamaged, m.Name)
	}
	if m.Format != m.format() {
		return nil, fmt.Errorf("%w: its format is %d, though it is not encrypted or signed, or has no units of hours, accordingly", ErrDamaged, m.Format)
	}
	if !m.Index.valid() {
		return nil, fmt.Errorf("%w: its index is %+v", ErrDamaged, m.Index)
	}
	return &m, nil
}

// readManifest reads the manifest of a backup. Errors: ErrNone, ErrDamaged, ErrFormat,
// ErrEncrypted, ErrSignature.
func readManifest(ctx context.Context, s Store, name string) (*Manifest, error) {
	text, err := readAll(ctx, s, manifestKey(name), manifestBytesMax)
	if errors.Is(err, ErrNone) {
		return nil, fmt.Errorf("%s: backup %q: %w", s, name, ErrNone)
	}
	if err != nil {
		return nil, err
	}
	m, err := openManifest(keysOf(s), name, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", s, manifestKey(name), err)
	}
	return m, nil
}

// openManifest decrypts, reads and verifies a manifest.
func openManifest(k *Keys, name string, text []byte) (m *Manifest, err error) {
	encrypted := bytes.HasPrefix(text, []byte(ageHeader))
	if encrypted {
		if text, err = k.open(text); err != nil {
			return nil, err
		}
	}
	if m, err = decodeManifest(name, text); err != nil {
		return nil, err
	}
	if encrypted != (len(m.Recipients) > 0) {
		return nil, fmt.Errorf("%w: it was encrypted, and is not, or the other way round", ErrDamaged)
	}
	unsigned, err := m.unsigned()
	if err != nil {
		return nil, err
	}
	return m, k.verify(unsigned, m.Signature)
}

func writeManifest(ctx context.Context, s Store, m *Manifest) error {
	k := keysOf(s)
	m.Recipients, m.Signature, m.Format = k.marks, nil, Format
	switch {
	case m.Hours > 0:
		m.Format = FormatHours
	case k.Encrypts() || k.sign != nil:
		m.Format = FormatKeyed
	}
	if k.sign != nil {
		unsigned, err := m.unsigned()
		if err != nil {
			return err
		}
		m.Signature = ed25519.Sign(k.sign, signedBytes(unsigned))
	}
	text, err := m.encode()
	if err != nil {
		return err
	}
	if text, err = k.seal(text); err != nil {
		return err
	}
	return s.Put(ctx, manifestKey(m.Name), text)
}
