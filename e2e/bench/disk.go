package bench

import (
	"context"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

func runDisk(ctx context.Context, b *bench, t target.Target) error {
	const which = "four shapes"
	dir, remove, err := b.folder()
	if err != nil {
		return err
	}
	defer remove()
	options := target.Options{Dir: dir, CPUs: b.config.ServerCPUs}
	server, err := target.Start(ctx, t, options, true)
	if err != nil {
		return err
	}
	defer func() { server.Kill() }()
	result, err := loadStreams(ctx, server, b.config.Scale.DiskRows, false)
	if err != nil {
		return err
	}
	points := float64(result.Points)
	b.higher(which, "samples", "M", points/1e6)
	b.higher(which, "ingest", "M points/s", result.PointsPerSecond()/1e6)
	if err := server.Stop(); err != nil {
		return err
	}
	written := server.WrittenBytes()
	if err := reportDisk(b, server, which, "on disk after the end", points); err != nil {
		return err
	}
	// A second life: some servers merge only what is in files.
	if server, err = target.Start(ctx, t, options, false); err != nil {
		return err
	}
	if err := compact(ctx, server); err != nil {
		return err
	}
	if err := server.Stop(); err != nil {
		return err
	}
	if err := reportDisk(b, server, which, "on disk, compacted", points); err != nil {
		return err
	}
	if of, ok := t.(target.Preallocating); ok {
		reserved, err := of.Preallocated(server.DataDir())
		if err != nil {
			return err
		}
		b.lower(which, "of it files made ahead, of fixed size", "MB", float64(reserved)/1e6)
		disk, err := harness.DiskBytes(server.DataDir())
		if err != nil {
			return err
		}
		b.lower(which, "compacted, without files made ahead", "bytes/sample", float64(disk-reserved)/points)
	}
	b.lower(which, "written in all", "bytes/sample", float64(written+server.WrittenBytes())/points)
	return nil
}

func reportDisk(b *bench, server *target.Server, which, name string, points float64) error {
	disk, err := harness.DiskBytes(server.DataDir())
	b.lower(which, name, "bytes/sample", float64(disk)/points)
	return err
}

// compact asks the server to compact, and waits until its folder has kept its size
// for ten seconds, at most two minutes.
func compact(ctx context.Context, server *target.Server) error {
	if err := server.Compact(ctx, server); err != nil {
		return err
	}
	var last int64
	same := 0
	for range 120 {
		size, err := harness.DiskBytes(server.DataDir())
		if err != nil {
			return err
		}
		if same++; size != last {
			last, same = size, 0
		}
		if same == 10 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return nil
}
