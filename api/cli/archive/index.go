package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

const (
	objectsPrefix  = "objects/"
	indexBytesMax  = 1 << 30 // decompressed
	objectBytesMax = 1 << 30
)

// Object is something stored under its checksum.
type Object struct {
	SHA256 string `json:"sha256"` // 64 hexadecimal digits
	Bytes  int64  `json:"bytes"`
}

func (o *Object) valid() bool {
	sum, err := hex.DecodeString(o.SHA256)
	return err == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == o.SHA256 && o.Bytes >= 0 && o.Bytes <= objectBytesMax
}

func (o *Object) key() string { return objectsPrefix + o.SHA256 }

// objectOf names some content.
func objectOf(content []byte) Object {
	sum := sha256.Sum256(content)
	return Object{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content))}
}

// putObject stores an object and names it.
func putObject(ctx context.Context, s Store, content []byte) (Object, error) {
	stored, err := keysOf(s).seal(content)
	if err != nil {
		return Object{}, err
	}
	o := objectOf(stored)
	return o, s.Put(ctx, o.key(), stored)
}

// readObject reads an object, compares it with its name and decrypts it. Errors:
// ErrDamaged, ErrEncrypted.
func readObject(ctx context.Context, s Store, o *Object, encrypted bool) ([]byte, error) {
	content, err := readAll(ctx, s, o.key(), o.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, asDamage(err, o))
	}
	if objectOf(content) != *o {
		return nil, fmt.Errorf("%s: %s is %w: it is not what was written", s, o.key(), ErrDamaged)
	}
	if !encrypted {
		return content, nil
	}
	if content, err = keysOf(s).open(content); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", s, o.key(), err)
	}
	return content, nil
}

// Part is where samples of a unit are: some whole blocks of an object.
type Part struct {
	Object int   `json:"object"` // which of the index
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// Unit is what a backup has of one metric in [FromMs, ToMs], both inclusive.
type Unit struct {
	Database []byte `json:"database"`
	Metric   []byte `json:"metric"`
	FromMs   int64  `json:"from_ms"` // milliseconds since 1970 UTC
	ToMs     int64  `json:"to_ms"`
	Digest
	// Hours: its samples are not what the metric has, but tell of hours of which it has the last sample only (series.Hour). Other
	// units have that sample.
	Hours bool   `json:"hours,omitempty"`
	Parts []Part `json:"parts"`
}

// InOrder reports whether the parts come in the order in which they were written when the objects are read one after the other.
func (u *Unit) InOrder() bool {
	return slices.IsSortedFunc(u.Parts, func(a, b Part) int { return cmp.Compare(a.Object, b.Object) })
}

// Index describes what the objects of a backup have.
type Index struct {
	Backup  string   `json:"backup"` // its name, so that no two backups have one index
	Objects []Object `json:"objects"`
	Units   []Unit   `json:"units"`
	// Held are objects that may be taken later. A complete backup holds none.
	Held []Object `json:"held,omitempty"`
}

// encode returns the index as it is stored.
func (x *Index) encode() ([]byte, error) {
	text, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	if len(text) > indexBytesMax {
		return nil, fmt.Errorf("the index of the backup would have %d bytes, more than %d: it has too many metrics and days", len(text), indexBytesMax)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	content := encoder.EncodeAll(text, nil)
	return content, encoder.Close()
}

// decodeIndex reads what encode gave. Errors: ErrDamaged.
func decodeIndex(content []byte) (*Index, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(indexBytesMax))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	text, err := decoder.DecodeAll(content, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	var x Index
	in := json.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&x); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return &x, x.check()
}

// check holds the index to what readers rely on. Errors: ErrDamaged.
func (x *Index) check() error {
	for _, list := range [][]Object{x.Objects, x.Held} {
		for i := range list {
			if !list[i].valid() {
				return fmt.Errorf("%w: an object is %+v", ErrDamaged, list[i])
			}
		}
	}
	for i := range x.Units {
		u := &x.Units[i]
		if u.FromMs > u.ToMs || u.Samples < 1 {
			return fmt.Errorf("%w: a unit of %d samples from %d to %d", ErrDamaged, u.Samples, u.FromMs, u.ToMs)
		}
		for _, p := range u.Parts {
			if p.Object < 0 || p.Object >= len(x.Objects) || p.Offset < int64(objectHeaderBytes) || p.Bytes < 1 ||
				p.Bytes > objectBytesMax || p.Offset > x.Objects[p.Object].Bytes-p.Bytes {
				return fmt.Errorf("%w: a part is %+v", ErrDamaged, p)
			}
		}
	}
	return nil
}

// readIndex reads the index of a backup. Errors: ErrDamaged.
func readIndex(ctx context.Context, s Store, m *Manifest) (*Index, error) {
	content, err := readObject(ctx, s, &m.Index, len(m.Recipients) > 0)
	if err != nil {
		return nil, fmt.Errorf("the index of backup %q: %w", m.Name, err)
	}
	x, err := decodeIndex(content)
	if err == nil && x.Backup != m.Name {
		err = fmt.Errorf("%w: it is that of backup %q", ErrDamaged, x.Backup)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the index of backup %q: %w", s, m.Name, err)
	}
	return x, nil
}
