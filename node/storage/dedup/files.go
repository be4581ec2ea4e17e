package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// The file of batch ids has the tables of all shards as they were at a checkpoint.
// The manifest names it. FORMAT.md has its layout.
const (
	filePrefix = "batches-"
	fileMagic  = "TMBATCH\x01"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a constant table

func fileName(number uint64) string { return fmt.Sprintf("%s%08x", filePrefix, number) }

func fileNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, filePrefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, err == nil
}

// encodeFile returns the file of the tables' durable forms, by shard, or nil
// when all are empty.
func encodeFile(tables [][]byte) []byte {
	var b []byte
	for shard, table := range tables {
		if len(table) == 0 {
			continue
		}
		if b == nil {
			b = append(b, fileMagic...)
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(shard))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(table)))
		b = append(b, table...)
	}
	if b == nil {
		return nil
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeFile reads the tables of so many shards.
func decodeFile(b []byte, shards int) ([]Table, error) {
	tables := make([]Table, shards)
	for i := range tables {
		tables[i] = NewTable()
	}
	if len(b) == 0 {
		return tables, nil
	}
	if len(b) < len(fileMagic)+4 || string(b[:len(fileMagic)]) != fileMagic {
		return nil, fmt.Errorf("%w: it begins differently", errTable)
	}
	end := len(b) - 4
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, fmt.Errorf("%w: checksum mismatch", errTable)
	}
	previous := -1
	for b = b[len(fileMagic):end]; len(b) > 0; {
		if len(b) < 6 {
			return nil, fmt.Errorf("%w: it is cut short", errTable)
		}
		shard, n := int(binary.LittleEndian.Uint16(b)), binary.LittleEndian.Uint32(b[2:])
		b = b[6:]
		if shard <= previous || shard >= shards || uint64(n) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: shard %d", errTable, shard)
		}
		var err error
		if tables[shard], err = DecodeTable(b[:n]); err != nil {
			return nil, fmt.Errorf("shard %d: %w", shard, err)
		}
		previous, b = shard, b[n:]
	}
	return tables, nil
}

// Form is the durable form of a shard's table.
type Form struct {
	Encoded []byte
	Entry   uint64 // the last entry that changed the table
}

// Files keeps the tables of all shards, as they were at a checkpoint, in a file that a
// manifest names. Its methods must not be called at the same time.
type Files struct {
	fs      vfs.FS
	dir     string
	name    string   // of the file that counts; none: all tables are empty
	entries []uint64 // by shard: the last entry that the file has; nil: unknown
	last    uint64   // number of the last file
}

// Staged is a file that is not named by a manifest yet.
type Staged struct {
	Name    string // none: all tables are empty
	entries []uint64
}

// OpenFiles returns the files of a folder, of which a manifest names one, and removes all others.
func OpenFiles(fsys vfs.FS, dir, name string) (*Files, error) {
	f := &Files{fs: fsys, dir: dir, name: name}
	if number, ok := fileNumber(name); ok {
		f.last = number
	}
	return f, f.removeOthers()
}

// Read returns the tables of so many shards. If the file is missing or damaged, they are empty, and
// damage is why: batches that are repeated now may be applied again, but what is stored
// can be read.
func (f *Files) Read(shards int) (tables []Table, damage, err error) {
	var b []byte
	if f.name != "" {
		b, err = vfs.ReadFile(f.fs, path.Join(f.dir, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			damage, err = err, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the batch ids: %w", err)
		}
	}
	if damage == nil {
		tables, damage = decodeFile(b, shards)
	}
	if damage != nil {
		damage = fmt.Errorf("%s: repeated batches may be applied again: %w", path.Join(f.dir, f.name), damage)
		tables, err = decodeFile(nil, shards)
	}
	return tables, damage, err
}

// Stage writes tables, by shard, to a new file, unless the present one has the same. The
// file counts after Keep, which is called once a manifest names it.
func (f *Files) Stage(forms []Form) (Staged, error) {
	staged := Staged{Name: f.name, entries: make([]uint64, len(forms))}
	tables := make([][]byte, len(forms))
	for i := range forms {
		staged.entries[i], tables[i] = forms[i].Entry, forms[i].Encoded
	}
	if slices.Equal(staged.entries, f.entries) {
		return staged, nil
	}
	staged.Name = ""
	b := encodeFile(tables)
	if b == nil {
		return staged, nil
	}
	f.last++
	staged.Name = fileName(f.last)
	if err := vfs.WriteFile(f.fs, path.Join(f.dir, staged.Name), b); err != nil {
		return staged, fmt.Errorf("write the batch ids: %w", err)
	}
	// Before the manifest: a name in it must lead somewhere after a power cut.
	if err := f.fs.SyncDir(f.dir); err != nil {
		return staged, fmt.Errorf("write the batch ids: %w", err)
	}
	return staged, nil
}

// Keep makes a staged file the one that counts and removes what it has replaced. After an error
// old files stay on disk until the next start.
func (f *Files) Keep(s Staged) error {
	f.name, f.entries = s.Name, s.entries
	return f.removeOthers()
}

// Forget makes the next Stage write a file, since a table changed without an entry.
func (f *Files) Forget() { f.entries = nil }

// removeOthers removes all files of batch ids but the one that counts.
func (f *Files) removeOthers() error {
	names, err := f.fs.List(f.dir)
	if err != nil {
		return fmt.Errorf("list the data folder: %w", err)
	}
	var problems []error
	for _, name := range names {
		if strings.HasPrefix(name, filePrefix) && name != f.name {
			problems = append(problems, f.fs.Remove(path.Join(f.dir, name)))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("remove old batch ids: %w", err)
	}
	return nil
}
