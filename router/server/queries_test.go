package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/rules"
)

// 0 says on flags that there is no bound, of queries at once too.
func TestQueryLimitsOfZero(t *testing.T) {
	s := Settings{}
	q := s.newQueries(&Backend{}, slog.New(slog.DiscardHandler), process.NewRegistry())
	for range 1000 {
		_, entry, err := q.admission.Begin(t.Context(), admission.Query{Text: "any"})
		if err != nil {
			t.Fatal(err)
		}
		defer entry.End(nil)
	}
	if running := len(q.admission.Running()); running != 1000 {
		t.Errorf("%d queries are running", running)
	}
	if orNone(3) != 3 || orNone(time.Duration(0)) < 290*365*24*time.Hour {
		t.Error("bounds are not what they are")
	}
}

// What rules say of a database comes before what the process was started with.
func TestRetentionOfDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "databases.yaml")
	text := "defaults: {}\ndatabases: {a: {retention: 2h}, b: {retention: 0}}\nretention-rules: [{database: c, retention: 3h}, {metric: 'x*', retention: 4h}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := (&process.DatabaseRuleFlags{DatabasesFile: path}).Follow(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	started := 5 * time.Hour
	for _, b := range []*Backend{{Rules: rules, Retention: &started}, {Rules: rules}} {
		for name, want := range map[string]time.Duration{"": 5 * time.Hour, "a": 2 * time.Hour, "b": 0, "c": 3 * time.Hour} {
			wantKnown := true
			if name == "" && b.Retention == nil { // nodes know
				want, wantKnown = 0, false
			}
			if got, known := b.retentionOf(name); got != want || known != wantKnown {
				t.Errorf("samples of %q are kept for %v (known: %v), want %v", name, got, known, want)
			}
		}
	}
}

// selectedTo is an ownWriter that ends as it is told.
type selectedTo struct {
	rules.Writer
	err error
}

func (s selectedTo) WriteSelected(context.Context, string, []byte) error { return s.err }

// TestSelectIntoIsAudited holds that what SELECT INTO writes is in the audit log once, however many parts it has, as is a failure.
func TestSelectIntoIsAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := audit.Open(audit.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	var w selectedWriter
	if err := w.WriteSelected(t.Context(), "a", nil); !errors.Is(err, errNotStarted) {
		t.Error(err)
	}
	for _, failed := range []error{nil, errors.New("the disk is full")} {
		var writer ownWriter = selectedTo{err: failed}
		w.writer.Store(&writer)
		r := new(audit.Request)
		for range 3 {
			if err := w.WriteSelected(audit.With(t.Context(), r), "", nil); !errors.Is(err, failed) {
				t.Error(err)
			}
		}
		l.Finish(r, audit.Event{Action: "query", Outcome: audit.OK})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); strings.Count(got, `"do":"select into"`) != 2 || strings.Count(got, `"database":"default"`) != 2 ||
		strings.Count(got, "the disk is full") != 1 || strings.Count(got, `"outcome":"failed"`) != 1 {
		t.Error(got)
	}
}
