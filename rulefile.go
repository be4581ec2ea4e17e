package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/tenancy"
)

// databaseRules are the rules of databases of one process: of its file, or none. Its methods
// do nothing on nil.
type databaseRules struct {
	file    *tenancy.File
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// follow reads the file and follows it until close; nil: none is named.
func (s *databaseRuleSettings) follow(ctx context.Context, logger *slog.Logger) (*databaseRules, error) {
	if s.databasesFile == "" {
		return nil, nil
	}
	file, err := tenancy.OpenFile(s.databasesFile, logger)
	if err != nil {
		return nil, fmt.Errorf("--databases-file: %w", err)
	}
	r := &databaseRules{file: file}
	ctx, r.cancel = context.WithCancel(ctx)
	r.running.Go(func() { file.Run(ctx) })
	return r, nil
}

// current gives the rules of now; nil: there are none.
func (r *databaseRules) current() *tenancy.Rules {
	if r == nil {
		return nil
	}
	return r.file.Current()
}

// register adds the file's metrics.
func (r *databaseRules) register(registry prometheus.Registerer) {
	if r != nil {
		registry.MustRegister(r.file)
	}
}

func (r *databaseRules) close() {
	if r != nil {
		r.cancel()
		r.running.Wait()
	}
}
