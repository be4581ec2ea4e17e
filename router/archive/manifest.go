package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"strings"
)

// Format is the format of the backups that this package writes, and reads.
const Format = 2

const (
	backupsPrefix    = "backups/"
	manifestName     = "/manifest.json"
	manifestBytesMax = 64 << 10
	// NameBytesMax bounds the name of a backup.
	NameBytesMax = 128
)

// Manifest says what a backup is. It is small, so that all can be listed.
type Manifest struct {
	Format     int    `json:"format"`
	Name       string `json:"name"`
	Cluster    string `json:"cluster"`     // its name
	StartedMs  int64  `json:"started_ms"`  // milliseconds since 1970 UTC: the backup has every write that was acknowledged before
	FinishedMs int64  `json:"finished_ms"` // 0: the backup is not complete
	Samples    int64  `json:"samples"`
	Series     int64  `json:"series"` // that have samples
	Units      int64  `json:"units"`
	Bytes      int64  `json:"bytes"`         // of all of its objects, those that it shares with others too
	Written    int64  `json:"written_bytes"` // of those that were written for it
	Index      Object `json:"index"`
	CRC32C     uint32 `json:"crc32c"` // of the manifest with 0 in this field
}

var backupName = regexp.MustCompile(`^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$`)

// CheckName says what is wrong with the name of a backup. Errors: ErrTarget.
func CheckName(name string) error {
	if len(name) > NameBytesMax || !backupName.MatchString(name) {
		return fmt.Errorf("%w: %q cannot be the name of a backup: expected at most %d small letters, digits, and - . _ inside", ErrTarget, name, NameBytesMax)
	}
	return nil
}

func manifestKey(name string) string { return backupsPrefix + name + manifestName }

// nameOf gives the name of the backup whose manifest has a key.
func nameOf(key string) (name string, ok bool) {
	name, ok = strings.CutSuffix(strings.TrimPrefix(key, backupsPrefix), manifestName)
	return name, ok && CheckName(name) == nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // made once, by the library

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
	if m.Format != Format {
		return nil, fmt.Errorf("%w: format %d, not %d", ErrFormat, m.Format, Format)
	}
	again, err := m.encode()
	if err != nil || !bytes.Equal(again, text) {
		return nil, fmt.Errorf("%w: its checksum does not fit", ErrDamaged)
	}
	if m.Name != name {
		return nil, fmt.Errorf("%w: it is that of backup %q", ErrDamaged, m.Name)
	}
	if !m.Index.valid() {
		return nil, fmt.Errorf("%w: its index is %+v", ErrDamaged, m.Index)
	}
	return &m, nil
}

// readManifest reads the manifest of a backup. Errors: ErrNone, ErrDamaged, ErrFormat.
func readManifest(ctx context.Context, s Store, name string) (*Manifest, error) {
	text, err := readAll(ctx, s, manifestKey(name), manifestBytesMax)
	if errors.Is(err, ErrNone) {
		return nil, fmt.Errorf("%s: backup %q: %w", s, name, ErrNone)
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(name, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", s, manifestKey(name), err)
	}
	return m, nil
}

func writeManifest(ctx context.Context, s Store, m *Manifest) error {
	text, err := m.encode()
	if err != nil {
		return err
	}
	return s.Put(ctx, manifestKey(m.Name), text)
}
