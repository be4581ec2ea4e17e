package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// SnapshotFolder returns where a snapshot of a data folder is. Open of the data folder removes all of them: what a
// process left behind would hold disk for ever.
func SnapshotFolder(dataDir, name string) string { return path.Join(dataDir, dirSnapshots, name) }

// Snapshot makes a data folder, which Options.ReadOnly opens, of what the engine has: of each shard what its entries up to
// one between the call and the return have made, and nothing of later ones. The files are those of this folder by second
// names, as they are never changed, or only appended to behind what the snapshot's manifest counts. It waits for hot pages to
// be sealed and a manifest to be written, whatever there is in files. Nothing in the snapshot outlives a power cut.
// It must not be called by two at a time for one name.
//
// Errors: ErrStalled when a shard has entries that the disk did not let be applied, pagelog.ErrTooManyGenerations when flushes
// are far behind, that of the context, and those of the disk, of which vfs.IsNoLink knows some. The folder is gone then.
func (e *Engine) Snapshot(ctx context.Context, name string) error {
	if err := e.SealAhead(ctx); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	dir := SnapshotFolder(e.dir, name)
	err := e.takeSnapshot(dir)
	if err != nil {
		err = errors.Join(fmt.Errorf("snapshot: %w", err), vfs.RemoveAll(e.fs, dir))
	}
	return err
}

// SealAhead seals most of what is hot while flushes can go on, which takeSnapshot keeps waiting: all that is hot may be more
// than the page log has generations for, and then writes would be refused.
func (e *Engine) SealAhead(ctx context.Context) error {
	for _, s := range e.shards {
		err := s.sealInParts(func() error {
			err := e.AwaitFlush(ctx)
			if err == nil && e.FlushLags() {
				err = fmt.Errorf("flushes lag behind: %w", pagelog.ErrTooManyGenerations)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("shard %d: %w", s.number, err)
		}
	}
	return nil
}

func (e *Engine) takeSnapshot(dir string) error {
	for _, folder := range []string{dirIndex, dirPages, dirSegments} {
		if err := e.fs.MkdirAll(path.Join(dir, folder)); err != nil {
			return err
		}
	}
	// With the right to edit nobody else publishes a manifest, and what the present one names stays: neither flushes, merges
	// nor cuts of retention remove a file, and marks of series that have become empty stay too.
	edit := e.files.Edit()
	defer edit.End()
	if err := edit.Resolve(); err != nil {
		return err
	}
	m := *edit.Present()
	if err := e.cutShards(&m); err != nil {
		return err
	}
	if sizes := e.pages.Sizes(); sizes[len(sizes)-1].Bytes > 0 {
		if err := e.endGeneration(); err != nil {
			return err
		}
	}
	v := e.files.CurrentWithTombstones()
	var err error
	if m.Pages, err = e.pages.Link(path.Join(dir, dirPages), v.GenerationOldest); err != nil {
		return err
	}
	// After the pages, so that every series that one of them names is in it. Series that were forgotten since are told from
	// others by Applied.
	if m.Index, err = e.index.Sync(); err != nil {
		return fmt.Errorf("sync the series table: %w", err)
	}
	if e.index.DropsKeys() {
		m.LetDropKeys()
	}
	if err := e.index.Link(path.Join(dir, dirIndex)); err != nil {
		return err
	}
	for i := range m.Segments {
		segment := path.Join(dirSegments, m.Segments[i].Name)
		// One that is missing is missing in the snapshot too, and reads say so.
		if err := e.fs.Link(path.Join(e.dir, segment), path.Join(dir, segment)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return manifest.Write(e.fs, dir, &m)
}

// cutShards notes in a manifest what each shard has now. A shard is locked for its own pages only, so each is cut at
// a moment of its own, and the page log has later pages of it among those of others.
func (e *Engine) cutShards(m *manifest.Manifest) error {
	m.LogPosition, m.BatchFile, m.ExemplarFile, m.Tombstones = 0, "", "", nil
	m.Applied = make([]uint64, len(e.shards))
	m.HighWater = make([]manifest.HighWater, len(e.shards))
	cuts := e.shardCuts()
	for i, s := range e.shards {
		if err := s.sealInParts(func() error { return nil }); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		stones, err := s.cut(m, &cuts)
		if err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		m.Tombstones = append(m.Tombstones, stones...)
	}
	m.RetentionCutMs, m.RuleCuts = cuts.WholeMs, cuts.Lists()
	return nil
}

// sealInParts seals what is hot, in parts between which others get the shard's lock, so that little is left to seal at once.
// Before each it calls before.
func (s *shard) sealInParts(before func() error) error {
	for n, some := 0, true; some; n++ {
		err := before()
		if err != nil {
			return err
		}
		s.engine.makeRoom()
		s.mu.Lock()
		some, err = s.mu.set.SealSome(n)
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// cut seals what is hot, and notes what the shard has now; its tombstones are the result.
func (s *shard) cut(m *manifest.Manifest, cuts *retention.Snapshot) (manifest.Tombstones, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.backlog) > 0 {
		return nil, s.stalledLocked()
	}
	if err := s.mu.set.SealAll(); err != nil {
		return nil, err
	}
	end := &m.HighWater[s.number]
	end.Generation, end.Offset = s.engine.pages.End()
	m.Applied[s.number] = s.mu.applied
	cuts.WholeMs[s.number], cuts.Rules[s.number] = s.cutMs.Load(), s.rules.Load()
	m.ThinCuts = retention.WithCuts(m.ThinCuts, len(s.engine.shards), s.number, s.thin.Load().table.Lists())
	stones := s.engine.files.CurrentWithTombstones().Tombstones
	from, to := stones.OfShard(s.number)
	return stones[from:to], nil
}
