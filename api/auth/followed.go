package auth

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/token"
)

// Flags are the flags of a process that name the file of users.
type Flags struct{ AuthFile string }

// Define defines the flag, below HeadingAccess.
func (s *Flags) Define(f *pflag.FlagSet) {
	f.StringVar(&s.AuthFile, "auth-file", "", "`file` with users, tokens and rights; empty: everybody may do everything")
	settings.Group(f, settings.HeadingAccess, "auth-file")
}

// Followed is the authenticator of a process, whose file is followed. Its methods do
// nothing on nil.
type Followed struct {
	*Authenticator
	file    *File
	tokens  *token.Registry // nil: callers cannot make any
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// Follow reads the file and follows it until Close. It returns nil if none is named. A store of
// tokens lets callers make some; nil: they cannot. Passwords are checked in slots of processors, if there are any.
func (s *Flags) Follow(ctx context.Context, tokens token.Store, processors *processor.Pool, logger *slog.Logger) (*Followed, error) {
	if s.AuthFile == "" {
		return nil, nil
	}
	file, err := OpenFile(s.AuthFile, logger)
	if err != nil {
		return nil, fmt.Errorf("--auth-file: %w", err)
	}
	a := &Followed{file: file}
	if tokens != nil {
		a.tokens = token.New(token.Options{Store: tokens, Logger: logger})
	}
	a.Authenticator = New(Options{Current: file.Current, Tokens: a.tokens, Processors: processors, Logger: logger})
	ctx, a.cancel = context.WithCancel(ctx)
	a.running.Go(func() { file.Run(ctx) })
	a.running.Go(func() { a.Authenticator.Run(ctx) })
	if a.tokens != nil {
		a.running.Go(func() { a.tokens.Run(ctx) })
	}
	return a, nil
}

// Register adds the metrics.
func (a *Followed) Register(registry prometheus.Registerer) {
	if a != nil {
		registry.MustRegister(a.file, a.Authenticator)
		if a.tokens != nil {
			registry.MustRegister(a.tokens)
		}
	}
}

// MakesTokens reports whether callers can make tokens.
func (a *Followed) MakesTokens() bool { return a != nil && a.tokens != nil }

// Guard passes only requests of known users to a handler; without users that is everybody.
func (a *Followed) Guard(handler http.Handler) http.Handler {
	if a == nil {
		return access.Open(handler)
	}
	return a.Handler(handler)
}

// Close ends following.
func (a *Followed) Close() {
	if a != nil {
		a.cancel()
		a.running.Wait()
	}
}
