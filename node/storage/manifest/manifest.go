package manifest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// ErrUnusable marks a data folder whose manifest cannot be used.
var ErrUnusable = errors.New("the data folder's manifest is not usable")

const (
	Name          = "MANIFEST"
	temporaryName = "MANIFEST.new"
	magic         = "tickmesh-manifest"
	format        = 2 // of a folder without a shard key
	formatKeyed   = 3 // of one with it: a program that does not know it would misplace series
	// formatForgets is that of a folder, with a shard key or without, whose log and files may tell of series that are
	// forgotten: a program that does not know that would give other ids.
	formatForgets = 4
	// formatThins is that of a folder as of formatForgets whose log and files may also tell of hours of which only the last
	// sample is kept: a program that does not know that would make rollups of what is left.
	formatThins = 5
	// formatHours is that of a folder as of formatThins whose log, pages and files may also have hours as samples (series.Hour):
	// a program that does not know them would take them for samples.
	formatHours = 6
	// formatGaps is that of a folder as of formatHours whose series table may also lack the keys of series that are forgotten for
	// good: a program that does not know it would take them for lost.
	formatGaps = 7
)

// ShardsMax bounds the shards of a data folder.
const ShardsMax = 1 << 12

// Manifest describes what of the data folder counts. See FORMAT.md.
type Manifest struct {
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
	// retention.Cuts are cuts of some series, by shard; none: there are none in any shard.
	RuleCuts [][]retention.Cuts `json:"ruleCuts,omitempty"`
	// ThinCuts are the cuts, by shard, before which the last sample of each hour is kept, as they were at Applied: no
	// sample from before them comes behind it in the log. None: there are none in any shard.
	ThinCuts   [][]retention.Cuts `json:"thinCuts,omitempty"`
	Tombstones Tombstones         `json:"tombstones"`
	LowWater   []LowWater         `json:"floors"`              // by shard
	BatchFile  string             `json:"batchFile,omitempty"` // of the batch ids after Applied; none: there are none
	// ExemplarFile is the file of the exemplars at Applied or later; none: there are none.
	ExemplarFile string      `json:"exemplarFile,omitempty"`
	HighWater    []HighWater `json:"ceilings,omitempty"` // of a snapshot: by shard, the place that its pages come before
	// Purged reports for segments, by name, up to which number tombstones have been
	// merged into them.
	Purged map[string]uint64 `json:"purged,omitempty"`
	// Merged reports for segments, by name, which cuts of rules they were written with.
	Merged map[string]retention.Merged `json:"worked,omitempty"`
	// Thinned reports the same for ThinCuts.
	Thinned map[string]retention.Merged `json:"thinned,omitempty"`
	// Suppressed has by segment the shards for which it does not count any more.
	Suppressed Suppressed `json:"excluded,omitempty"`
}

// NotePurged notes that tombstones up to a number have been merged into segments, and
// forgets those that are no more.
func (m *Manifest) NotePurged(metas []segment.Meta, number uint64) {
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

// DropGenerations leaves out generations of the page log.
func (m *Manifest) DropGenerations(gone func(number uint32) bool) {
	m.Pages.Generations = slices.DeleteFunc(slices.Clone(m.Pages.Generations), func(g pagelog.GenerationState) bool { return gone(g.Number) })
}

// tombstoneLast returns the greatest number that a tombstone ever had that matters.
func (m *Manifest) tombstoneLast() uint64 {
	last := m.Tombstones.Last()
	for _, n := range m.Purged {
		last = max(last, n)
	}
	return last
}

// RuleCutsOf returns the cuts of some series of a shard.
func (m *Manifest) RuleCutsOf(shard int) []retention.Cuts { return cutsOf(m.RuleCuts, shard) }

// ThinCutsOf returns the cuts before which the last sample of each hour of some series of a shard is kept.
func (m *Manifest) ThinCutsOf(shard int) []retention.Cuts { return cutsOf(m.ThinCuts, shard) }

func cutsOf(lists [][]retention.Cuts, shard int) []retention.Cuts {
	if lists == nil {
		return nil
	}
	return lists[shard]
}

func New(shards int, key series.ShardKey) (*Manifest, error) {
	incarnation, err := NewIncarnation()
	if err != nil {
		return nil, err
	}
	m := &Manifest{
		Format: formatOf(key), Incarnation: incarnation, Shards: shards, ShardKey: key,
		Applied: make([]uint64, shards), RetentionCutMs: make([]int64, shards), LowWater: make([]LowWater, shards),
	}
	for i := range m.RetentionCutMs {
		m.RetentionCutMs[i] = retention.NoCut
	}
	return m, nil
}

// formatOf returns the format of a manifest with a shard key.
func formatOf(key series.ShardKey) int {
	if key == (series.ShardKey{}) {
		return format
	}
	return formatKeyed
}

// Forgets reports whether the folder's format allows forgotten series, and LetForget makes it so.
func (m *Manifest) Forgets() bool { return m.Format >= formatForgets }

// LetForget is described with Forgets.
func (m *Manifest) LetForget() { m.Format = max(m.Format, formatForgets) }

// Thins reports whether the folder's format allows thinned hours, and LetThin makes it so.
func (m *Manifest) Thins() bool { return m.Format >= formatThins }

// LetThin is described with Thins.
func (m *Manifest) LetThin() { m.Format = max(m.Format, formatThins) }

// TakesHours reports whether the folder's format allows hours as samples, and LetTakeHours makes it so.
func (m *Manifest) TakesHours() bool { return m.Format >= formatHours }

// LetTakeHours is described with TakesHours.
func (m *Manifest) LetTakeHours() { m.Format = max(m.Format, formatHours) }

// LetDropKeys makes the folder's format one that allows keys of forgotten series to be missing.
func (m *Manifest) LetDropKeys() { m.Format = max(m.Format, formatGaps) }

func NewIncarnation() (string, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", fmt.Errorf("draw an incarnation: %w", err)
	}
	return hex.EncodeToString(id), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a constant table

// encode returns the file's bytes: a line with magic and the checksum of the rest,
// then JSON.
func (m *Manifest) encode() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	return fmt.Appendf(nil, "%s %08x\n%s\n", magic, crc32.Checksum(body, castagnoli), body), nil
}

func decode(b []byte) (*Manifest, error) {
	head, rest, ok := bytes.Cut(b, []byte{'\n'})
	var sum uint32
	if !ok {
		return nil, fmt.Errorf("%w: no first line", ErrUnusable)
	}
	if _, err := fmt.Sscanf(string(head), magic+" %08x", &sum); err != nil {
		return nil, fmt.Errorf("%w: its first line is %.40q", ErrUnusable, head)
	}
	body := bytes.TrimSuffix(rest, []byte{'\n'})
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: checksum mismatch", ErrUnusable)
	}
	m := &Manifest{}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if m.Format != formatOf(m.ShardKey) && (m.Format < formatForgets || m.Format > formatGaps) {
		return nil, fmt.Errorf("%w: format %d; this program reads formats %d to %d", ErrUnusable, m.Format, format, formatGaps)
	}
	if m.Shards < 1 || m.Shards > ShardsMax || len(m.Applied) != m.Shards || len(m.RetentionCutMs) != m.Shards || len(m.LowWater) != m.Shards ||
		m.RuleCuts != nil && len(m.RuleCuts) != m.Shards || m.ThinCuts != nil && len(m.ThinCuts) != m.Shards || m.HighWater != nil && len(m.HighWater) != m.Shards {
		return nil, fmt.Errorf("%w: it speaks of %d shards", ErrUnusable, m.Shards)
	}
	return m, nil
}

// Read returns fs.ErrNotExist for a new data folder.
func Read(fsys vfs.FS, dir string) (*Manifest, error) {
	name := path.Join(dir, Name)
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	m, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// ErrInDoubt reports that it is not known whether the disk has the old manifest or
// the new one. The files that either names must stay.
var ErrInDoubt = errors.New("whether the manifest was replaced is not known")

// Write replaces the manifest in one step. After ErrInDoubt it may have
// been replaced, after any other error it has not.
func Write(fsys vfs.FS, dir string, m *Manifest) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	temporary, name := path.Join(dir, temporaryName), path.Join(dir, Name)
	if err := vfs.WriteFile(fsys, temporary, b); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	err = fsys.Rename(temporary, name)
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write the manifest: %w: %w", ErrInDoubt, err)
	}
	return nil
}

// NoteMerged notes which cuts of rules new segments were written with, and forgets segments that
// are no more. Thin are the cuts that they were thinned by; nil: they were not.
func (m *Manifest) NoteMerged(metas []segment.Meta, cuts, thin *retention.Snapshot, here func(shard uint16) bool) {
	m.Merged = mergedInto(m.Merged, m.Segments, metas, cuts, here)
	m.Thinned = mergedInto(m.Thinned, m.Segments, metas, thin, here)
}

func mergedInto(before map[string]retention.Merged, present, metas []segment.Meta, cuts *retention.Snapshot, here func(shard uint16) bool) map[string]retention.Merged {
	next := map[string]retention.Merged{}
	for i := range present {
		if w, ok := before[present[i].Name]; ok {
			next[present[i].Name] = w
		}
	}
	for i := range metas {
		if cuts == nil {
			break
		}
		if w, ok := cuts.MergedInto(&metas[i], here); ok && w.Passed > 0 {
			next[metas[i].Name] = w
		}
	}
	return next
}
