package shardfile

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

// ErrDamaged marks bytes that are not a file of forms.
var ErrDamaged = errors.New("a file of all shards is damaged")

// Kind is what the files of one kind have in common.
type Kind struct {
	Prefix string // of names; a number follows it
	Magic  string // the first bytes
	What   string // for people, as in "batch ids"
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a constant table

func (k Kind) name(number uint64) string { return fmt.Sprintf("%s%08x", k.Prefix, number) }

func (k Kind) number(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, k.Prefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, err == nil
}

// Encode returns the file of the forms, by shard, or nil when all are empty.
func (k Kind) Encode(forms [][]byte) []byte {
	var b []byte
	for shard, form := range forms {
		if len(form) == 0 {
			continue
		}
		if b == nil {
			b = append(b, k.Magic...)
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(shard))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(form)))
		b = append(b, form...)
	}
	if b == nil {
		return nil
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Decode returns the forms of so many shards, which point into b; those that it does not have are empty.
// Errors: ErrDamaged.
func (k Kind) Decode(b []byte, shards int) ([][]byte, error) {
	forms := make([][]byte, shards)
	if len(b) == 0 {
		return forms, nil
	}
	if len(b) < len(k.Magic)+4 || string(b[:len(k.Magic)]) != k.Magic {
		return nil, fmt.Errorf("%w: it begins differently", ErrDamaged)
	}
	end := len(b) - 4
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, fmt.Errorf("%w: checksum mismatch", ErrDamaged)
	}
	previous := -1
	for b = b[len(k.Magic):end]; len(b) > 0; {
		if len(b) < 6 {
			return nil, fmt.Errorf("%w: it is cut short", ErrDamaged)
		}
		shard, n := int(binary.LittleEndian.Uint16(b)), binary.LittleEndian.Uint32(b[2:])
		b = b[6:]
		if shard <= previous || shard >= shards || uint64(n) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: shard %d", ErrDamaged, shard)
		}
		forms[shard] = b[:n:n]
		previous, b = shard, b[n:]
	}
	return forms, nil
}

// Files keeps the forms of all shards, as they were at a checkpoint, in a file that a
// manifest names. Its methods must not be called at the same time.
type Files struct {
	fs      vfs.FS
	dir     string
	kind    Kind
	name    string   // of the file that counts; none: all forms are empty
	entries []uint64 // by shard: the last entry that the file has; nil: unknown
	last    uint64   // number of the last file
}

// Staged is a file that is not named by a manifest yet.
type Staged struct {
	Name    string // none: all forms are empty
	entries []uint64
}

// Open returns the files of a folder, of which a manifest names one, and removes all others of the kind.
func Open(fsys vfs.FS, dir string, kind Kind, name string) (*Files, error) {
	f := &Files{fs: fsys, dir: dir, kind: kind, name: name}
	if number, ok := kind.number(name); ok {
		f.last = number
	}
	return f, f.removeOthers()
}

// Path returns where the file is that counts.
func (f *Files) Path() string { return path.Join(f.dir, f.name) }

// Read returns the forms of so many shards. If the file is missing or damaged, damage is why.
func (f *Files) Read(shards int) (forms [][]byte, damage, err error) {
	var b []byte
	if f.name != "" {
		b, err = vfs.ReadFile(f.fs, f.Path())
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the %s: %w", f.kind.What, err)
		}
	}
	forms, damage = f.kind.Decode(b, shards)
	return forms, damage, nil
}

// Stage writes forms to a new file, unless the present one has the same: entries are, by shard, the last ones that changed
// the forms. The file counts after Keep, which is called once a manifest names it.
func (f *Files) Stage(entries []uint64, form func(shard int) []byte) (Staged, error) {
	staged := Staged{Name: f.name, entries: entries}
	if slices.Equal(entries, f.entries) {
		return staged, nil
	}
	forms := make([][]byte, len(entries))
	for i := range forms {
		forms[i] = form(i)
	}
	staged.Name = ""
	b := f.kind.Encode(forms)
	if b == nil {
		return staged, nil
	}
	f.last++
	staged.Name = f.kind.name(f.last)
	if err := vfs.WriteFile(f.fs, path.Join(f.dir, staged.Name), b); err != nil {
		return staged, fmt.Errorf("write the %s: %w", f.kind.What, err)
	}
	// Before the manifest: a name in it must lead somewhere after a power cut.
	if err := f.fs.SyncDir(f.dir); err != nil {
		return staged, fmt.Errorf("write the %s: %w", f.kind.What, err)
	}
	return staged, nil
}

// Keep makes a staged file the one that counts and removes what it has replaced. After an error
// old files stay on disk until the next start.
func (f *Files) Keep(s Staged) error {
	f.name, f.entries = s.Name, s.entries
	return f.removeOthers()
}

// Forget makes the next Stage write a file, since a form changed without an entry.
func (f *Files) Forget() { f.entries = nil }

// removeOthers removes all files of the kind but the one that counts.
func (f *Files) removeOthers() error {
	names, err := f.fs.List(f.dir)
	if err != nil {
		return fmt.Errorf("list the data folder: %w", err)
	}
	var problems []error
	for _, name := range names {
		if strings.HasPrefix(name, f.kind.Prefix) && name != f.name {
			problems = append(problems, f.fs.Remove(path.Join(f.dir, name)))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("remove old %s: %w", f.kind.What, err)
	}
	return nil
}
