package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"
)

// Errors of an archive, for errors.Is.
var (
	// ErrDamaged: an object is not what was written; the text names it.
	ErrDamaged = errors.New("damaged")
	// ErrFormat: the backup has a format that this program does not know.
	ErrFormat = errors.New("a format that this program does not know")
	// ErrNone: there is no such object, or no such backup.
	ErrNone = errors.New("there is no such backup")
	// ErrUsed: the name is that of a complete backup, or of another cluster's.
	ErrUsed = errors.New("the name is in use")
	// ErrTarget: the target cannot be understood.
	ErrTarget = errors.New("invalid target")
)

// Info describes an object.
type Info struct {
	Key        string
	Bytes      int64
	ModifiedAt time.Time // by the clock of the storage
}

// Store keeps objects under keys: rows of names with slashes between. It is consistent:
// what was put or deleted is seen so by everybody afterwards. Errors: ErrNone, ctx's, and
// those of the storage.
type Store interface {
	// Put stores an object, which is not empty, or replaces it, in one step and durably.
	Put(ctx context.Context, key string, content []byte) error
	// Get returns an object from an offset on, at most length bytes. Errors: ErrNone.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// List returns the objects whose keys begin with a prefix, in no order. An error is the
	// last thing that it returns.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Delete deletes an object; one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// String names the target, for people.
	String() string
}

// schemeS3 begins targets that are buckets.
const schemeS3 = "s3://"

// Open returns the store of a target: s3://bucket/prefix, or a folder, which is made when
// something is put there. Errors: ErrTarget.
func Open(target string, o S3Options) (Store, error) {
	rest, isS3 := strings.CutPrefix(target, schemeS3)
	if !isS3 {
		if scheme, _, ok := strings.Cut(target, "://"); ok {
			return nil, fmt.Errorf("%w: %q: expected a folder, or s3://bucket/prefix, not %s", ErrTarget, target, scheme)
		}
		if target == "" {
			return nil, fmt.Errorf("%w: it is empty", ErrTarget)
		}
		return NewFolder(target), nil
	}
	parsed, err := url.Parse(target)
	if err != nil || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil, fmt.Errorf("%w: %q: expected s3://bucket/prefix", ErrTarget, target)
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	return NewS3(bucket, strings.Trim(prefix, "/"), o)
}

// readAll reads an object of at most so many bytes.
func readAll(ctx context.Context, s Store, key string, bytesMax int64) (content []byte, err error) {
	r, err := s.Get(ctx, key, 0, bytesMax+1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	content, err = io.ReadAll(io.LimitReader(r, bytesMax+1))
	if err == nil && int64(len(content)) > bytesMax {
		err = fmt.Errorf("%s is %w: it has more than %d bytes", key, ErrDamaged, bytesMax)
	}
	return content, err
}
