package archive

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/tickmesh/tickmesh/api/series"
)

const (
	partSuffix = ".part"
	lockName   = "LOCK"

	// FileBytesDefault is how large a file becomes, about.
	FileBytesDefault = 64 << 20
)

// Writer writes an archive.
type Writer struct {
	dir       string
	fileBytes int64
	manifest  Manifest
	lock      *os.File
	zstd      *zstd.Encoder

	file    *os.File // nil: none is begun
	out     *bufio.Writer
	written int64
	crc     uint32
	units   []Unit // of the file
	block   []byte
	payload []byte
}

// Create begins an archive in a folder, which is made if it is missing, or goes on with
// one that was cut short. Errors: ErrUsed, ErrDamaged, those of the file system.
func Create(dir, cluster string, nowMs, fileBytes int64) (w *Writer, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	w = &Writer{dir: dir, fileBytes: fileBytes, zstd: encoder, lock: lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%s: %w: another process writes a backup there", dir, ErrUsed)
	}
	present, err := ReadManifest(dir)
	switch {
	case errors.Is(err, ErrNone):
		w.manifest = Manifest{Format: Format, Cluster: cluster, StartedMs: nowMs}
		if err := onlyOurs(dir); err != nil {
			return nil, err
		}
		return w, writeManifest(dir, &w.manifest)
	case err != nil:
		return nil, err
	case present.FinishedMs != 0:
		return nil, fmt.Errorf("%s: %w: it has a complete backup; choose another folder", dir, ErrUsed)
	case present.Cluster != cluster:
		return nil, fmt.Errorf("%s: %w: it has a backup of cluster %q, not %q", dir, ErrUsed, present.Cluster, cluster)
	}
	w.manifest = *present
	for i := range present.Files {
		if err := Check(dir, &present.Files[i]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// onlyOurs refuses a folder that has something else.
func onlyOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lockName && !strings.HasSuffix(e.Name(), partSuffix) {
			return fmt.Errorf("%s: %w: it has %s; choose an empty folder", dir, ErrUsed, e.Name())
		}
	}
	return nil
}

// Manifest gives what is complete.
func (w *Writer) Manifest() *Manifest { return &w.manifest }

// Unit adds one unit: fill calls its argument with the samples, as a Digester takes
// them. When fill fails, nothing of the unit stays. Errors: those of fill and of the
// file system.
func (w *Writer) Unit(database, metric []byte, fromMs, toMs int64, fill func(Visitor) error) error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	written, crc := w.written, w.crc
	var d Digester
	err := fill(func(key series.Key, timesMs []int64, values []float64) error {
		d.Add(key, timesMs, values)
		return w.add(key, timesMs, values)
	})
	if err == nil {
		err = w.flushBlock()
	}
	if err != nil {
		w.block = w.block[:0]
		w.out.Reset(w.file) // what it holds is of this unit
		w.written, w.crc = written, crc
		_, seekErr := w.file.Seek(written, io.SeekStart)
		if undoErr := errors.Join(w.file.Truncate(written), seekErr); undoErr != nil {
			return errors.Join(err, undoErr, w.abandon())
		}
		return err
	}
	w.units = append(w.units, Unit{Database: database, Metric: metric, FromMs: fromMs, ToMs: toMs, Summary: d.Summary()})
	if w.written >= w.fileBytes {
		return w.seal()
	}
	return nil
}

func (w *Writer) add(key series.Key, timesMs []int64, values []float64) error {
	for len(timesMs) > 0 {
		n := min(len(timesMs), runSamplesMax)
		w.block = appendRun(w.block, key, timesMs[:n], values[:n])
		timesMs, values = timesMs[n:], values[n:]
		if len(w.block) >= blockBytes {
			if err := w.flushBlock(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) begin() error {
	if w.file != nil {
		return nil
	}
	file, err := os.Create(w.path() + partSuffix)
	if err != nil {
		return err
	}
	w.file, w.out, w.written, w.crc, w.units = file, bufio.NewWriterSize(file, 256<<10), 0, 0, nil
	return w.write(binary.LittleEndian.AppendUint32([]byte(fileMagic), Format))
}

func (w *Writer) path() string {
	return filepath.Join(w.dir, fmt.Sprintf("samples-%06d.tma", len(w.manifest.Files)+1))
}

func (w *Writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.written += int64(n)
	w.crc = crc32.Update(w.crc, castagnoli(), b[:n])
	return err
}

func (w *Writer) flushBlock() error {
	if len(w.block) == 0 {
		return nil
	}
	w.payload = w.zstd.EncodeAll(w.block, w.payload[:0])
	w.block = w.block[:0]
	header := binary.LittleEndian.AppendUint32(nil, uint32(len(w.payload)))
	header = binary.LittleEndian.AppendUint32(header, crc32.Checksum(w.payload, castagnoli()))
	if err := w.write(header); err != nil {
		return err
	}
	return w.write(w.payload)
}

// seal ends the file and enters it into the manifest.
func (w *Writer) seal() error {
	if w.file == nil {
		return nil
	}
	path := w.path()
	err := w.write(make([]byte, blockHeaderBytes))
	if err == nil {
		err = w.out.Flush()
	}
	if err == nil {
		err = w.file.Sync()
	}
	err = errors.Join(err, w.file.Close())
	w.file = nil
	if err == nil {
		err = os.Rename(path+partSuffix, path)
	}
	if err == nil {
		err = syncFolder(w.dir)
	}
	if err != nil {
		return err
	}
	w.manifest.Files = append(w.manifest.Files, File{Name: filepath.Base(path), Bytes: w.written, CRC32C: w.crc, Units: w.units})
	return writeManifest(w.dir, &w.manifest)
}

// Finish makes the archive complete. Close has to follow.
func (w *Writer) Finish(nowMs int64) error {
	if err := w.seal(); err != nil {
		return err
	}
	w.manifest.FinishedMs = nowMs
	return writeManifest(w.dir, &w.manifest)
}

// Close lets go of the folder. Units that are written stay, so that another Writer goes
// on after them.
func (w *Writer) Close() error {
	var problems []error
	if w.file != nil && len(w.units) > 0 {
		problems = append(problems, w.seal())
	} else if w.file != nil {
		problems = append(problems, w.abandon())
	}
	return errors.Join(append(problems, w.lock.Close(), w.zstd.Close())...)
}

// abandon drops the file that is being written.
func (w *Writer) abandon() error {
	name := w.file.Name()
	err := errors.Join(w.file.Close(), os.Remove(name))
	w.file, w.units = nil, nil
	return err
}
