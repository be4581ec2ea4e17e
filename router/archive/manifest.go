package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// Errors of an archive, for errors.Is.
var (
	// ErrDamaged: a file is not what was written; the text names it.
	ErrDamaged = errors.New("damaged")
	// ErrFormat: the archive has a format that this program does not know.
	ErrFormat = errors.New("a format that this program does not know")
	// ErrNone: the folder has no archive.
	ErrNone = errors.New("there is no backup in this folder")
	// ErrUsed: another process writes to the folder, or it has an archive that is
	// complete, or of another cluster.
	ErrUsed = errors.New("the folder is in use")
)

// Format is the format of the archives that this package writes.
const Format = 1

const (
	manifestName     = "manifest.json"
	manifestBytesMax = 1 << 30
)

// Manifest says what an archive has.
type Manifest struct {
	Format     int    `json:"format"`
	Cluster    string `json:"cluster"`     // its name
	StartedMs  int64  `json:"started_ms"`  // milliseconds since 1970 UTC
	FinishedMs int64  `json:"finished_ms"` // 0: the archive is not complete
	Files      []File `json:"files"`
	CRC32C     uint32 `json:"crc32c"` // of the manifest with 0 in this field
}

// File is a file of samples.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	CRC32C uint32 `json:"crc32c"`
	Units  []Unit `json:"units"`
}

// Unit is what an archive has of one metric in [FromMs, ToMs], both inclusive.
type Unit struct {
	Database []byte `json:"database"`
	Metric   []byte `json:"metric"`
	FromMs   int64  `json:"from_ms"` // milliseconds since 1970 UTC
	ToMs     int64  `json:"to_ms"`
	Summary
}

// Samples gives the number of samples.
func (m *Manifest) Samples() (n int64) {
	for _, f := range m.Files {
		for i := range f.Units {
			n += f.Units[i].Samples
		}
	}
	return n
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

// ReadManifest reads the manifest of a folder. Errors: ErrNone, ErrDamaged, ErrFormat,
// those of the file system.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestName)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > manifestBytesMax {
		return nil, fmt.Errorf("%s is %w: it has %d bytes", path, ErrDamaged, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

var fileName = regexp.MustCompile(`^samples-[0-9]{6,}\.tma$`)

func decodeManifest(text []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if m.Format > Format {
		return nil, fmt.Errorf("%w: format %d", ErrFormat, m.Format)
	}
	again, err := m.encode()
	if err != nil || !bytes.Equal(again, text) {
		return nil, fmt.Errorf("%w: its checksum does not fit", ErrDamaged)
	}
	for _, f := range m.Files {
		if !fileName.MatchString(f.Name) {
			return nil, fmt.Errorf("%w: a file is called %q", ErrDamaged, f.Name)
		}
	}
	return &m, nil
}

// writeManifest replaces the manifest in one step, durably.
func writeManifest(dir string, m *Manifest) error {
	text, err := m.encode()
	if err != nil {
		return err
	}
	part := filepath.Join(dir, manifestName+partSuffix)
	file, err := os.Create(part)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(part, filepath.Join(dir, manifestName))
	}
	if err == nil {
		err = syncFolder(dir)
	}
	return err
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
