package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/router/query/admission"
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
	b := &Backend{Rules: rules, Retention: 5 * time.Hour}
	for name, want := range map[string]time.Duration{"": 5 * time.Hour, "a": 2 * time.Hour, "b": 0, "c": 3 * time.Hour} {
		if got := b.retentionOf(name); got != want {
			t.Errorf("samples of %q are kept for %v, want %v", name, got, want)
		}
	}
}
