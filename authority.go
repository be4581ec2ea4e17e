package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/auth"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/token"
)

// authSettings name the file of users.
type authSettings struct{ authFile string }

func (s *authSettings) Define(f *pflag.FlagSet) {
	f.StringVar(&s.authFile, "auth-file", "", "`file` with users, tokens and rights; empty: everybody may do everything")
	settings.Group(f, settings.HeadingAccess, "auth-file")
}

// followedAuthority is the authority of a process, whose file is followed. Its methods do
// nothing on nil.
type followedAuthority struct {
	*auth.Authority
	file    *auth.File
	tokens  *token.Registry // nil: callers cannot make any
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// openAuthority reads the file and follows it until close; nil: none is named. A store of
// tokens lets callers make some; nil: they cannot.
func (s *authSettings) openAuthority(ctx context.Context, tokens token.Store, logger *slog.Logger) (*followedAuthority, error) {
	if s.authFile == "" {
		return nil, nil
	}
	file, err := auth.OpenFile(s.authFile, logger)
	if err != nil {
		return nil, fmt.Errorf("--auth-file: %w", err)
	}
	a := &followedAuthority{file: file}
	if tokens != nil {
		a.tokens = token.New(token.Options{Store: tokens, Logger: logger})
	}
	a.Authority = auth.New(auth.Options{Current: file.Current, Tokens: a.tokens, Logger: logger})
	ctx, a.cancel = context.WithCancel(ctx)
	a.running.Go(func() { file.Run(ctx) })
	a.running.Go(func() { a.Authority.Run(ctx) })
	if a.tokens != nil {
		a.running.Go(func() { a.tokens.Run(ctx) })
	}
	return a, nil
}

// register adds the metrics.
func (a *followedAuthority) register(registry prometheus.Registerer) {
	if a != nil {
		registry.MustRegister(a.file, a.Authority)
		if a.tokens != nil {
			registry.MustRegister(a.tokens)
		}
	}
}

// guard lets those reach a handler who are known; without users that is everybody.
func (a *followedAuthority) guard(handler http.Handler) http.Handler {
	if a == nil {
		return access.Open(handler)
	}
	return a.Handler(handler)
}

func (a *followedAuthority) close() {
	if a != nil {
		a.cancel()
		a.running.Wait()
	}
}
