package index

import (
	"errors"
	"runtime"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// readParts runs read, which reads parts, and keeps them until it ends. It returns those that are not what
// they were.
func readParts(parts []*part, read func() error) (rotten []*part, err error) {
	defer runtime.KeepAlive(parts)
	inMemory := func(p *part) bool { return p.seal == nil }
	if !slices.ContainsFunc(parts, func(p *part) bool { return !inMemory(p) }) {
		return nil, vfs.Guard(read) // a panic is a bug
	}
	err = func() (err error) {
		defer recoverRotten(&err)
		return vfs.Guard(read)
	}()
	var (
		of    errRotten
		fault *vfs.FaultError
	)
	decoding := errors.As(err, &of) || errors.Is(err, errOutOfRange) || errors.Is(err, errDamagedPosting)
	if !decoding && !errors.As(err, &fault) {
		return nil, err
	}
	mapped := slices.DeleteFunc(slices.Clone(parts), inMemory)
	rotten = slices.DeleteFunc(slices.Clone(mapped), func(p *part) bool { return p.seal != of.seal && p.whole() })
	if decoding && len(rotten) == 0 {
		rotten = mapped // it was read otherwise for a moment
	}
	if len(rotten) > 0 {
		err = &CorruptError{File: rotten[0].held.mapping.Name(), What: err.Error()}
	}
	return rotten, err
}

// whole reports whether a part that is mapped is what it was.
func (p *part) whole() (whole bool) {
	err := p.held.mapping.Guard(func([]byte) error {
		whole = p.seal.whole()
		return nil
	})
	return whole && err == nil
}
