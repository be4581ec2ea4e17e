package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// The file of batch ids has the tables of all shards as they were at a checkpoint.
// The manifest names it. FORMAT.md has its layout.
const (
	batchFilePrefix = "batches-"
	batchFileMagic  = "TMBATCH\x01"
)

func batchFileName(number uint64) string { return fmt.Sprintf("%s%08x", batchFilePrefix, number) }

func batchFileNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, batchFilePrefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, err == nil
}

// encodeBatchFile returns the file of the tables' durable forms, by shard, or nil
// when all are empty.
func encodeBatchFile(tables [][]byte) []byte {
	var b []byte
	for shard, table := range tables {
		if len(table) == 0 {
			continue
		}
		if b == nil {
			b = append(b, batchFileMagic...)
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

// decodeBatchFile reads the tables of so many shards.
func decodeBatchFile(b []byte, shards int) ([]batchTable, error) {
	tables := make([]batchTable, shards)
	for i := range tables {
		tables[i] = newBatchTable()
	}
	if len(b) == 0 {
		return tables, nil
	}
	if len(b) < len(batchFileMagic)+4 || string(b[:len(batchFileMagic)]) != batchFileMagic {
		return nil, fmt.Errorf("%w: it begins differently", errBatchTable)
	}
	end := len(b) - 4
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, fmt.Errorf("%w: checksum mismatch", errBatchTable)
	}
	previous := -1
	for b = b[len(batchFileMagic):end]; len(b) > 0; {
		if len(b) < 6 {
			return nil, fmt.Errorf("%w: it is cut short", errBatchTable)
		}
		shard, n := int(binary.LittleEndian.Uint16(b)), binary.LittleEndian.Uint32(b[2:])
		b = b[6:]
		if shard <= previous || shard >= shards || uint64(n) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: shard %d", errBatchTable, shard)
		}
		var err error
		if tables[shard], err = decodeBatchTable(b[:n]); err != nil {
			return nil, fmt.Errorf("shard %d: %w", shard, err)
		}
		previous, b = shard, b[n:]
	}
	return tables, nil
}

// readBatchTables reads the file that the manifest names and removes others. A
// damaged one is reported and counts as empty: batches that are repeated now may be
// applied again, but what is stored can be read.
func (e *Engine) readBatchTables(m *manifest) ([]batchTable, error) {
	if number, ok := batchFileNumber(m.BatchFile); ok {
		e.batchFileLast = number
	}
	if err := e.removeBatchFiles(m.BatchFile); err != nil {
		return nil, err
	}
	if m.BatchFile == "" {
		return decodeBatchFile(nil, m.Shards)
	}
	name := path.Join(e.dir, m.BatchFile)
	b, err := readFile(e.fs, name)
	if err != nil && !isNew(err) {
		return nil, fmt.Errorf("read the batch ids: %w", err)
	}
	var tables []batchTable
	if err == nil {
		tables, err = decodeBatchFile(b, m.Shards)
	}
	if err != nil {
		e.reportCorruption(fmt.Errorf("%s: repeated batches may be applied again: %w", name, err))
		return decodeBatchFile(nil, m.Shards)
	}
	return tables, nil
}

// removeBatchFiles removes all files of batch ids but one.
func (e *Engine) removeBatchFiles(kept string) error {
	names, err := e.fs.List(e.dir)
	if err != nil {
		return fmt.Errorf("list the data folder: %w", err)
	}
	var problems []error
	for _, name := range names {
		if strings.HasPrefix(name, batchFilePrefix) && name != kept {
			problems = append(problems, e.fs.Remove(path.Join(e.dir, name)))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("remove old batch ids: %w", err)
	}
	return nil
}

// batchState is what a manifest that is to be published says of batch ids.
type batchState struct {
	file    string
	changed []uint64 // by shard: the last entry that the file knows
}

// batchReplacement is the table of a shard that is being replaced.
type batchReplacement struct {
	shard   int
	applied uint64
	encoded []byte
}

// storeBatchTables writes the tables as they were after the applied entries, one of
// them replaced if there is a replacement, unless the present file says the same.
// The caller holds the maintenance lock.
func (e *Engine) storeBatchTables(applied []uint64, replacement *batchReplacement) (batchState, error) {
	state := batchState{file: e.manifest.BatchFile, changed: make([]uint64, len(e.shards))}
	tables := make([][]byte, len(e.shards))
	same := len(e.batches.changed) == len(e.shards)
	for i, s := range e.shards {
		if replacement != nil && replacement.shard == i {
			tables[i], state.changed[i], same = replacement.encoded, replacement.applied, false
			continue
		}
		s.mu.Lock()
		table, changed, err := s.mu.ledger.at(applied[i])
		s.mu.Unlock()
		if err != nil {
			return state, fmt.Errorf("shard %d: %w", i, err)
		}
		tables[i], state.changed[i] = table, changed
		same = same && changed == e.batches.changed[i]
	}
	if same {
		return state, nil
	}
	return state, e.writeBatchFile(&state, tables)
}

// writeBatchFile writes the tables' durable forms to a new file.
func (e *Engine) writeBatchFile(state *batchState, tables [][]byte) error {
	state.file = ""
	b := encodeBatchFile(tables)
	if b == nil {
		return nil
	}
	e.batchFileLast++
	state.file = batchFileName(e.batchFileLast)
	if err := writeFile(e.fs, path.Join(e.dir, state.file), b); err != nil {
		return fmt.Errorf("write the batch ids: %w", err)
	}
	// Before the manifest: a name in it must lead somewhere after a power cut.
	if err := e.fs.SyncDir(e.dir); err != nil {
		return fmt.Errorf("write the batch ids: %w", err)
	}
	return nil
}

// keepBatchState notes what was published, and removes what it has replaced.
func (e *Engine) keepBatchState(state batchState) {
	e.batches = state
	if err := e.removeBatchFiles(state.file); err != nil {
		e.log.Error("old batch ids stay on disk until the next start", "error", err)
	}
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		return nil, err
	}
	return b, nil
}

// writeFile makes a file durable, but not its name.
func writeFile(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
