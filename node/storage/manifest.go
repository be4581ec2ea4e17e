package storage

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// ErrManifest marks a data folder whose manifest cannot be used.
var ErrManifest = errors.New("the data folder's manifest is not usable")

const (
	manifestName      = "MANIFEST"
	manifestTemporary = "MANIFEST.new"
	manifestMagic     = "tickmesh-manifest"
	manifestFormat    = 2 // of a folder without a shard key
	manifestKeyed     = 3 // of one with it: a program that does not know it would misplace series
)

// manifest says what of the data folder counts. See FORMAT.md.
type manifest struct {
	Format      int    `json:"format"`
	Incarnation string `json:"incarnation"` // of the data folder, random
	Shards      int    `json:"shards"`
	// ShardKey keys the choice of shards; zero: the choice has no key, or is a cluster's.
	ShardKey series.ShardKey `json:"shardKey,omitzero"`

	// Entries before LogPosition are in pages and segments. Applied holds each
	// shard's last entry before it.
	LogPosition uint64   `json:"logPosition"`
	Applied     []uint64 `json:"applied"`

	Index          index.State    `json:"index"`
	Pages          pagelog.State  `json:"pages"`
	Segments       []segment.Meta `json:"segments"`
	RetentionCutMs []int64        `json:"retentionCutMs"` // by shard
	// RuleCuts are cuts of some series, by shard; none: there are none in any shard.
	RuleCuts   [][]RuleCuts `json:"ruleCuts,omitempty"`
	Tombstones tombstones   `json:"tombstones"`
	Floors     []floor      `json:"floors"`              // by shard
	BatchFile  string       `json:"batchFile,omitempty"` // of the batch ids after Applied; none: there are none
	// Purged says for segments, by name, up to which number tombstones have been
	// worked into them.
	Purged map[string]uint64 `json:"purged,omitempty"`
	// Worked says for segments, by name, which cuts of rules they were written with.
	Worked map[string]worked `json:"worked,omitempty"`
	// Excluded says of which shards segments do not count any more.
	Excluded excluded `json:"excluded,omitempty"`
}

// purge notes that tombstones up to a number have been worked into segments, and
// forgets those that are no more.
func (m *manifest) purge(metas []segment.Meta, number uint64) {
	purged := map[string]uint64{}
	for i := range m.Segments {
		if n := m.Purged[m.Segments[i].Name]; n > 0 {
			purged[m.Segments[i].Name] = n
		}
	}
	for i := range metas {
		if number > 0 {
			purged[metas[i].Name] = number
		}
	}
	m.Purged = purged
}

// tombstoneLast returns the greatest number that a tombstone ever had that matters.
func (m *manifest) tombstoneLast() uint64 {
	last := m.Tombstones.last()
	for _, n := range m.Purged {
		last = max(last, n)
	}
	return last
}

// ruleCutsOf returns the cuts of some series of a shard.
func (m *manifest) ruleCutsOf(shard int) []RuleCuts {
	if m.RuleCuts == nil {
		return nil
	}
	return m.RuleCuts[shard]
}

func newManifest(shards int, key series.ShardKey) (*manifest, error) {
	incarnation, err := newIncarnation()
	if err != nil {
		return nil, err
	}
	m := &manifest{
		Format: formatOf(key), Incarnation: incarnation, Shards: shards, ShardKey: key,
		Applied: make([]uint64, shards), RetentionCutMs: make([]int64, shards), Floors: make([]floor, shards),
	}
	for i := range m.RetentionCutMs {
		m.RetentionCutMs[i] = noCut
	}
	return m, nil
}

// formatOf returns the format of a manifest with a shard key.
func formatOf(key series.ShardKey) int {
	if key == (series.ShardKey{}) {
		return manifestFormat
	}
	return manifestKeyed
}

func newIncarnation() (string, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", fmt.Errorf("draw an incarnation: %w", err)
	}
	return hex.EncodeToString(id), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a constant table

// encode returns the file's bytes: a line with magic and the checksum of the rest,
// then JSON.
func (m *manifest) encode() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	return fmt.Appendf(nil, "%s %08x\n%s\n", manifestMagic, crc32.Checksum(body, castagnoli), body), nil
}

func decodeManifest(b []byte) (*manifest, error) {
	head, rest, ok := bytes.Cut(b, []byte{'\n'})
	var sum uint32
	if !ok {
		return nil, fmt.Errorf("%w: no first line", ErrManifest)
	}
	if _, err := fmt.Sscanf(string(head), manifestMagic+" %08x", &sum); err != nil {
		return nil, fmt.Errorf("%w: its first line is %.40q", ErrManifest, head)
	}
	body := bytes.TrimSuffix(rest, []byte{'\n'})
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: checksum mismatch", ErrManifest)
	}
	m := &manifest{}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if m.Format != formatOf(m.ShardKey) {
		return nil, fmt.Errorf("%w: format %d; this program reads formats %d and %d", ErrManifest, m.Format, manifestFormat, manifestKeyed)
	}
	if m.Shards < 1 || m.Shards > shardsMax || len(m.Applied) != m.Shards || len(m.RetentionCutMs) != m.Shards || len(m.Floors) != m.Shards ||
		m.RuleCuts != nil && len(m.RuleCuts) != m.Shards {
		return nil, fmt.Errorf("%w: it speaks of %d shards", ErrManifest, m.Shards)
	}
	return m, nil
}

// readManifest returns fs.ErrNotExist for a new data folder.
func readManifest(fsys vfs.FS, dir string) (*manifest, error) {
	name := path.Join(dir, manifestName)
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the manifest: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// errInDoubt says that it is not known whether the disk has the old manifest or
// the new one. The files that either names must stay.
var errInDoubt = errors.New("whether the manifest was replaced is not known")

// writeManifest replaces the manifest in one step. After errInDoubt it may have
// been replaced, after any other error it has not.
func writeManifest(fsys vfs.FS, dir string, m *manifest) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	temporary, name := path.Join(dir, manifestTemporary), path.Join(dir, manifestName)
	f, err := fsys.Create(temporary)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	err = fsys.Rename(temporary, name)
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write the manifest: %w: %w", errInDoubt, err)
	}
	return nil
}

func isNew(err error) bool { return errors.Is(err, fs.ErrNotExist) }
