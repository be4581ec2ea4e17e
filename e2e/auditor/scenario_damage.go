package auditor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// damageSegments changes bytes in segments of each node, once while it runs and once
// while it does not. Nobody may be answered wrongly, and the node mends itself from the
// other copies: at the end all that the copies hold can be read and is equal.
func damageSegments(ctx context.Context, s *Stage) error {
	rounds := 1
	if s.options.Long {
		rounds = 10
	}
	for round := range rounds {
		for _, node := range s.Servers(harness.RoleNode) {
			for _, running := range []bool{true, false} {
				if err := s.damageNode(ctx, node, round, running); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// damageNode waits until the node was damaged and has mended something.
func (s *Stage) damageNode(ctx context.Context, node *harness.Server, round int, running bool) error {
	name := fmt.Sprintf("round %d: damage segments of %s", round, node.Name)
	if !running {
		name += ", which does not run"
	}
	files := 0
	before, err := s.repairs(ctx, node)
	if err != nil {
		return err
	}
	begin := func(ctx context.Context) (err error) {
		if !running {
			before = 0
			if err := node.Kill(); err != nil {
				return err
			}
		}
		files, err = s.flipBytes(filepath.Join(node.DataDir, "segments"))
		if err == nil && !running {
			err = node.Start(ctx)
		}
		return err
	}
	// The check that comes last reads every sample of every copy, until all can be read.
	if err := s.during(ctx, fault{name, begin, func(context.Context) error { return nil }}); err != nil {
		return err
	}
	after, err := s.repairs(ctx, node)
	if err != nil {
		return err
	}
	s.logf("%d files were damaged, %.0f ranges repaired", files, after-before)
	if files > 0 && after == before {
		return fmt.Errorf("%w: %s: %d files were damaged, and nothing was repaired", ErrBroken, name, files)
	}
	return nil
}

// damagedBytes is what is changed of a file: enough that some of it is in use.
const damagedBytes = 64

// flipBytes changes bytes of every other segment of a folder.
func (s *Stage) flipBytes(dir string) (files int, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		return 0, err
	}
	for i, name := range names {
		if i%2 == 1 {
			continue
		}
		err := s.flipBytesOf(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was merged meanwhile
		}
		if err != nil {
			return files, err
		}
		files++
	}
	return files, nil
}

func (s *Stage) flipBytesOf(name string) error {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	for range damagedBytes {
		var b [1]byte
		at := s.random.Int64N(info.Size())
		if _, err := file.ReadAt(b[:], at); err != nil {
			return err
		}
		b[0] ^= byte(1 + s.random.IntN(255))
		if _, err := file.WriteAt(b[:], at); err != nil {
			return err
		}
	}
	return nil
}

// repairs returns how many ranges the present life of a node has repaired.
func (s *Stage) repairs(ctx context.Context, node *harness.Server) (float64, error) {
	return counterOf(ctx, node, "tickmesh_repairs_total")
}
