package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// runName is the file of the data folder that says how its last run began, or ended.
const runName = "RUN"

// runRecord is what the file has. A run that did not sync its log before each answer,
// and neither ended well nor on the same start of the machine, may have lost the log's
// last second. A replica that has others to ask must not go on with its raft id then:
// it may have acknowledged entries, or commits, that it does not know of any more. So
// the folder becomes another incarnation, and the replicas in it are quarantined.
type runRecord struct {
	clean bool
	mode  SyncMode
	boot  string // empty: not known
	// A write or sync of the log failed in the run, or in the start after it: the file system may
	// have dropped what was not synced, though the machine runs on.
	broken bool
	// former are the incarnations that the folder had, the last ones: so that others know
	// that a replica which is not here was never made, or has ended.
	former []string
}

// The first format is read, and not written any more: it has no former incarnations. The last is
// written of a run whose log has failed only: a program that does not know it assumes the worst.
const (
	runFormat1 = "tickmesh-run 1 clean=%t mode=%q boot=%q\n"
	runFormat  = "tickmesh-run 2 clean=%t mode=%q boot=%q former=%q\n"
	runFormat3 = "tickmesh-run 3 broken=true mode=%q boot=%q former=%q\n"
)

// formerMax bounds the incarnations that are remembered.
const formerMax = 16

func (r *runRecord) encode() []byte {
	former := strings.Join(r.former[max(0, len(r.former)-formerMax):], ",")
	if r.broken {
		return fmt.Appendf(nil, runFormat3, r.mode, r.boot, former)
	}
	return fmt.Appendf(nil, runFormat, r.clean, r.mode, r.boot, former)
}

// errRun marks a file that cannot be read as a runRecord.
var errRun = errors.New("the record of the last run is not usable")

func parseRunRecord(b []byte) (r runRecord, err error) {
	if n, err := fmt.Sscanf(string(b), runFormat1, &r.clean, &r.mode, &r.boot); err == nil && n == 3 &&
		bytes.Equal(fmt.Appendf(nil, runFormat1, r.clean, r.mode, r.boot), b) {
		return r, nil
	}
	former := ""
	n, err := fmt.Sscanf(string(b), runFormat3, &r.mode, &r.boot, &former)
	if r.broken = err == nil; r.broken {
		n++
	} else {
		n, err = fmt.Sscanf(string(b), runFormat, &r.clean, &r.mode, &r.boot, &former)
	}
	if former != "" {
		r.former = strings.Split(former, ",")
	}
	if err != nil || n != 4 || !bytes.Equal(r.encode(), b) {
		return runRecord{}, fmt.Errorf("%w: %.60q", errRun, b)
	}
	return r, nil
}

// lostPower reports whether the run may have lost what it had written, seen from another.
func (r *runRecord) lostPower(boot string) bool {
	return !r.clean && r.mode != SyncAlways && r.boot != "" && boot != "" && r.boot != boot
}

// readRun returns the record of the last run; a zero one if there is none.
func readRun(fsys vfs.FS, dir string) (r runRecord, err error) {
	name := path.Join(dir, runName)
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return runRecord{clean: true}, nil
	}
	if err != nil && !errors.Is(err, vfs.ErrTooLarge) { // which is no record
		return runRecord{}, fmt.Errorf("read the record of the last run: %w", err)
	}
	return parseRunRecord(b)
}

// writeRun replaces the record in one step, durably.
func writeRun(fsys vfs.FS, dir string, r *runRecord) error {
	name := path.Join(dir, runName)
	err := vfs.WriteFile(fsys, name+".new", r.encode())
	if err == nil {
		err = fsys.Rename(name+".new", name)
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write the record of this run: %w", err)
	}
	return nil
}

// renewIfLost makes the data folder another incarnation when its log may lack what its
// replicas have told others.
func (n *Node) renewIfLost(r *commit.Recovery) error {
	if n.options.NodeID == aloneID {
		return nil
	}
	last, err := readRun(n.options.FS, n.options.DataDir)
	if errors.Is(err, errRun) {
		n.logger.Error("nobody knows how the last run ended; the worst is assumed", "error", err)
		last, err = runRecord{mode: SyncOff, boot: "unknown"}, nil
	}
	if err != nil {
		return err
	}
	n.former = last.former
	var lost error
	switch {
	case last.lostPower(n.options.BootID):
		lost = errors.New("the machine was started anew, and the last run had not synced its log")
	case last.broken && last.mode != SyncAlways:
		lost = errors.New("a write or sync of it failed in the last run, which had not synced it before each answer")
	case n.damaged:
		lost = errors.New("a part of it is damaged")
	case n.log.End() < wal.Position(n.engine.LogPosition()):
		lost = errors.New("it ends before the last checkpoint")
	}
	if lost = r.Doubt(lost); lost == nil {
		return nil
	}
	old := n.engine.Incarnation()
	n.former = append(n.former, old)
	last.former = n.former // known before the folder is another one
	if err := writeRun(n.options.FS, n.options.DataDir, &last); err != nil {
		return err
	}
	if err := n.engine.RenewIncarnation(); err != nil {
		return err
	}
	n.logger.Error("the log may lack what replicas here have acknowledged; the data folder becomes another incarnation", "reason", lost,
		"incarnation", n.engine.Incarnation(), "former", old)
	return nil
}

// beginRun notes that the folder is in use. Before that, what the start has decided
// about replicas is made durable.
func (n *Node) beginRun(decided bool) error {
	if decided {
		if _, err := n.loop.logStates(); err != nil {
			return err
		}
		if _, err := n.log.Sync(); err != nil {
			return err
		}
	}
	return writeRun(n.options.FS, n.options.DataDir, &runRecord{mode: n.options.Sync, boot: n.options.BootID, former: n.former})
}

// brokenNote is whether the next start will hear that the log has failed.
type brokenNote struct {
	mu   sync.Mutex
	done bool
}

// noteBroken makes durable that the log has failed, if it has and that is not done yet. A disk
// that takes no write of the log may not take this one either; then it is tried again.
func (n *Node) noteBroken() {
	if n.options.NodeID == aloneID || n.loop.refusals.broken.Load() == nil {
		return
	}
	n.broken.mu.Lock()
	defer n.broken.mu.Unlock()
	if n.broken.done {
		return
	}
	err := writeRun(n.options.FS, n.options.DataDir, &runRecord{broken: true, mode: n.options.Sync, boot: n.options.BootID, former: n.former})
	if err != nil {
		n.logger.Error("that the log has failed cannot be noted for the next start; trying again", "error", err)
		return
	}
	n.broken.done = true
}

// noteUnopened is noteBroken for a log that a start cannot make durable as the last run has
// left it.
func noteUnopened(fsys vfs.FS, dir string) error {
	last, err := readRun(fsys, dir)
	if err != nil || last.clean {
		return err
	}
	last.broken = true
	return writeRun(fsys, dir, &last)
}

// endRun notes that all is synced.
func (n *Node) endRun() error {
	return writeRun(n.options.FS, n.options.DataDir, &runRecord{clean: true, mode: n.options.Sync, boot: n.options.BootID, former: n.former})
}
