package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/node/transfer"
)

const (
	exportsMax    = 8
	exportIdleMax = 2 * time.Minute
	// exportYields is how long an export without a reader stays when others wait for
	// its place.
	exportYields = 10 * time.Second
)

// exports keeps exports open between the attempts of those who fetch them. One that
// was read to its end is closed at once: a node that is rebuilt fetches many in a row.
// Should its last bytes be lost on their way, the shard is fetched again.
type exports struct {
	now     func() time.Time
	idleMax time.Duration
	logger  *slog.Logger
	mu      struct {
		sync.Mutex
		byID   map[string]*export
		timer  *time.Timer // looks for those that nobody comes back for; nil: there are none
		closed bool
	}
}

type export struct {
	files   *transfer.ShardFiles
	shard   uint16
	readers int
	ended   bool      // somebody has read to the end
	last    time.Time // of use
}

func newExports(now func() time.Time, logger *slog.Logger) *exports {
	e := &exports{now: now, idleMax: exportIdleMax, logger: logger}
	e.mu.byID = map[string]*export{}
	return e
}

// look closes what nobody has come back for, though nobody else wants an export: they
// pin files that merges have given up.
func (e *exports) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.timer = nil
	if err := e.expireLocked(); err != nil {
		e.logger.Warn("an export was not closed", "error", err)
	}
}

// expireLocked closes what has been read, and what nobody has come back for.
func (e *exports) expireLocked() error {
	idleMax, idle := e.idleMax, false
	if len(e.mu.byID) >= exportsMax {
		idleMax = exportYields
	}
	var problems []error
	for id, x := range e.mu.byID {
		switch {
		case x.readers > 0:
		case x.ended || e.mu.closed || e.now().Sub(x.last) >= idleMax:
			delete(e.mu.byID, id)
			problems = append(problems, x.files.Close())
		default:
			idle = true
		}
	}
	if idle && e.mu.timer == nil {
		e.mu.timer = time.AfterFunc(e.idleMax, e.look)
	}
	return errors.Join(problems...)
}

// add keeps an export, with one reader.
func (e *exports) add(shard uint16, files *transfer.ShardFiles) (id string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	err = e.expireLocked()
	switch {
	case e.mu.closed:
		return "", errors.Join(series.ErrUnavailable, err)
	case len(e.mu.byID) >= exportsMax:
		return "", errors.Join(fmt.Errorf("%w: %d exports are open", series.ErrOverloaded, exportsMax), err)
	}
	id = strconv.FormatUint(rand.Uint64(), 16)
	e.mu.byID[id] = &export{files: files, shard: shard, readers: 1, last: e.now()}
	return id, err
}

// enter returns an export another reader.
func (e *exports) enter(shard uint16, id string) (*transfer.ShardFiles, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.mu.byID[id]
	if x == nil || x.shard != shard || e.mu.closed {
		return nil, fmt.Errorf("%w: export %q of shard %d", wire.ErrNotFound, id, shard)
	}
	x.readers++
	return x.files, nil
}

// leave takes a reader away; ended: it has read to the end.
func (e *exports) leave(id string, ended bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.mu.byID[id]
	if x == nil {
		return nil
	}
	x.readers--
	x.last, x.ended = e.now(), x.ended || ended
	return e.expireLocked()
}

func (e *exports) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.closed = true
	if e.mu.timer != nil {
		e.mu.timer.Stop()
	}
	return e.expireLocked()
}

// OpenExport implements rpc.Node.
func (s *Service) OpenExport(_ context.Context, shard uint16, id string, offset int64) (*rpc.Export, error) {
	var files *transfer.ShardFiles
	var err error
	if id == "" {
		if files, err = s.node.Transfer().Open(shard); err == nil {
			if id, err = s.exports.add(shard, files); id == "" {
				err = errors.Join(err, files.Close())
			}
		}
	} else {
		files, err = s.exports.enter(shard, id)
	}
	if err != nil {
		return nil, ofShard(shard, err)
	}
	return &rpc.Export{
		ID: id, TotalBytes: files.Size(), Index: files.Index, Term: files.Term,
		Bytes: &exportReader{reader: files.OpenAt(offset), close: func(ended bool) error { return s.exports.leave(id, ended) }},
	}, nil
}

// exportReader leaves its export once.
type exportReader struct {
	reader io.Reader
	ended  bool // the end was read
	once   sync.Once
	close  func(ended bool) error
}

// Read implements io.Reader.
func (r *exportReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	r.ended = r.ended || errors.Is(err, io.EOF)
	return n, err
}

// Close implements io.Closer.
func (r *exportReader) Close() (err error) {
	r.once.Do(func() { err = r.close(r.ended) })
	return err
}
