package pagelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	extentHeaderBytes = 64
	extentVersion     = 1
	extentMagic       = "TickPage"
	extentPrefix      = "pages-"
	extentSuffix      = ".log"
)

// extent is one file of a generation, with its mapping.
type extent struct {
	file    vfs.File
	mapping *vfs.Mapping
}

// newExtent takes a file and its mapping. Pages of a series lie far from each other,
// so the kernel is to read nothing around them; scans ask for what comes next.
func newExtent(file vfs.File, mapping *vfs.Mapping) *extent {
	_ = mapping.Advise(0, int64(len(mapping.Bytes())), vfs.AdviceRandom) // a hint
	return &extent{file: file, mapping: mapping}
}

func (e *extent) close() error { return errors.Join(e.mapping.Close(), e.file.Close()) }

// generation is a live generation, or one that was dropped and is still pinned.
type generation struct {
	number  uint32
	shift   uint // of the extents' size
	extents []atomic.Pointer[extent]
	flushed atomic.Int64 // pages below this offset can be read through the mappings

	// Guarded by Log.mu.
	synced  int64 // pages below this offset are durable
	holders int   // one for being live, one for each pin
	asked   int   // the extent that the background has been asked for last
}

func (g *generation) extentBytes() int64 { return 1 << g.shift }

// locate splits an offset of the generation.
func (g *generation) locate(offset int64) (index int, inExtent int64) {
	return int(offset >> g.shift), offset & (g.extentBytes() - 1)
}

// locateEnd splits an offset that ends a page, or a header: at the border of two
// extents it is the end of the first.
func (g *generation) locateEnd(offset int64) (index int, inExtent int64) {
	index = int((offset - 1) >> g.shift)
	return index, offset - int64(index)<<g.shift
}

func extentName(dir string, generation uint32, index int) string {
	return path.Join(dir, fmt.Sprintf("%s%08x-%04x%s", extentPrefix, generation, index, extentSuffix))
}

func parseExtentName(name string) (generation uint32, index int, ok bool) {
	rest, ok := strings.CutPrefix(name, extentPrefix)
	if !ok {
		return 0, 0, false
	}
	rest, ok = strings.CutSuffix(rest, extentSuffix)
	if !ok || len(rest) != 13 || rest[8] != '-' {
		return 0, 0, false
	}
	g, errGeneration := strconv.ParseUint(rest[:8], 16, 32)
	i, errIndex := strconv.ParseUint(rest[9:], 16, 16)
	generation, index = uint32(g), int(i)
	return generation, index, errGeneration == nil && errIndex == nil && extentName("", generation, index) == name
}

// encodeExtentHeader returns
//
//	magic 8 bytes, version u32, checksum u32, generation u32, index u32, extent bytes u64
//
// and zeros up to extentHeaderBytes. The checksum is the CRC-32C of all 64 bytes
// with zeros in its own place.
func encodeExtentHeader(generation uint32, index int, extentBytes int64) []byte {
	b := make([]byte, extentHeaderBytes)
	copy(b, extentMagic)
	binary.LittleEndian.PutUint32(b[8:], extentVersion)
	binary.LittleEndian.PutUint32(b[16:], generation)
	binary.LittleEndian.PutUint32(b[20:], uint32(index))
	binary.LittleEndian.PutUint64(b[24:], uint64(extentBytes))
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b, castagnoli))
	return b
}

// versionError reports that a file is of a version that this program cannot read.
type versionError struct {
	name    string
	version uint32
}

func (e *versionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this program reads version %d: use the program that wrote it", e.name, e.version, extentVersion)
}

// checkExtentHeader reports whether the header is the one that belongs here. A good
// header of another version is an error; a damaged one costs nothing, as all it
// says is known from the State.
func checkExtentHeader(name string, b []byte, generation uint32, index int, extentBytes int64) (ok bool, err error) {
	if len(b) < extentHeaderBytes {
		return false, nil
	}
	b = b[:extentHeaderBytes]
	if bytes.Equal(b, encodeExtentHeader(generation, index, extentBytes)) {
		return true, nil
	}
	var sum [extentHeaderBytes]byte
	copy(sum[:], b)
	clear(sum[12:16])
	version := binary.LittleEndian.Uint32(b[8:])
	if string(b[:8]) == extentMagic && version != extentVersion &&
		crc32.Checksum(sum[:], castagnoli) == binary.LittleEndian.Uint32(b[12:]) {
		return false, &versionError{name, version}
	}
	return false, nil
}

// makeExtent makes an empty extent: blocks reserved, header written, mapped. Its
// name is not durable yet.
func makeExtent(fsys vfs.FS, dir string, generation uint32, index int, extentBytes int64) (*extent, error) {
	name := extentName(dir, generation, index)
	file, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	err = file.Preallocate(extentBytes)
	if err == nil {
		_, err = file.WriteAt(encodeExtentHeader(generation, index, extentBytes), 0)
	}
	var mapping *vfs.Mapping
	if err == nil {
		mapping, err = file.Map(extentBytes)
	}
	if err != nil {
		err = errors.Join(err, file.Close(), fsys.Remove(name))
		return nil, &SpaceError{File: name, Bytes: extentBytes, Cause: err}
	}
	return newExtent(file, mapping), nil
}
