package process

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/settings"
)

// auditCloseMax bounds how long the audit log may take to write what waits at the end.
const auditCloseMax = 5 * time.Second

// AuditFlags are the flags that name the audit log.
type AuditFlags struct {
	path  string
	level settings.Choice
}

// Define defines the flags, below HeadingAccess.
func (s *AuditFlags) Define(f *pflag.FlagSet) {
	f.StringVar(&s.path, "audit-log", "", "`file` for lines of JSON about who did what, or stderr; opened anew at SIGHUP")
	s.level = settings.Choice{Value: "changes", Words: []string{"changes", "all"}}
	f.Var(&s.level, "audit-level", "what the audit log has: refusals, deletes and administration, or queries too")
	settings.Group(f, settings.HeadingAccess, "audit-log", "audit-level")
}

// AuditLog is the audit log of a process, which SIGHUP opens anew. Its methods do nothing on nil.
type AuditLog struct {
	log     *audit.Log
	logger  *slog.Logger
	hangUps chan os.Signal
	running sync.WaitGroup
}

// Open opens the audit log and follows SIGHUP until Close. It returns nil if none is named.
func (s *AuditFlags) Open(registry prometheus.Registerer, logger *slog.Logger) (*AuditLog, error) {
	if s.path == "" {
		return nil, nil
	}
	log, err := audit.Open(audit.Options{Path: s.path, All: s.level.Value == "all", Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	registry.MustRegister(log)
	a := &AuditLog{log: log, logger: logger, hangUps: make(chan os.Signal, 1)}
	signal.Notify(a.hangUps, syscall.SIGHUP)
	a.running.Go(func() {
		for range a.hangUps {
			log.Reopen()
		}
	})
	return a, nil
}

// Log returns the log to record in; nil: none.
func (a *AuditLog) Log() *audit.Log {
	if a == nil {
		return nil
	}
	return a.log
}

// Close writes what waits.
func (a *AuditLog) Close() {
	if a == nil {
		return
	}
	signal.Stop(a.hangUps)
	close(a.hangUps)
	a.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), auditCloseMax)
	defer cancel()
	if err := a.log.Close(ctx); err != nil {
		a.logger.Error("the audit log is not whole", "error", err)
	}
}

// Handler serves an ordinary HTTP port by next and records how each request ended, probes aside:
// that of a node, which has no front.
func (a *AuditLog) Handler(next http.Handler) http.Handler {
	if a == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.IsProbe(r) {
			next.ServeHTTP(w, r)
			return
		}
		gathered := new(audit.Request)
		e := audit.Event{Time: time.Now(), From: r.RemoteAddr, Protocol: access.AuditHTTP, Action: r.Method + " " + r.URL.EscapedPath()}
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		returned := false
		defer func() {
			if !returned { // it panics, and net/http ends the connection
				answer.status = http.StatusInternalServerError
			}
			access.EndHTTP(&e, answer.status)
			a.log.Finish(gathered, e)
		}()
		next.ServeHTTP(answer, r.WithContext(audit.With(r.Context(), gathered)))
		returned = true
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	set    bool
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if !w.set && status >= http.StatusOK {
		w.status, w.set = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(p []byte) (int, error) {
	w.set = true
	return w.ResponseWriter.Write(p)
}

// Unwrap is what http.ResponseController calls.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
