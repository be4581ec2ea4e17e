package rulefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var errWord = errors.New("not a word")

// word is a text without spaces.
func word(name string, text []byte) (string, error) {
	if bytes.ContainsAny(text, " ") {
		return "", fmt.Errorf("%w: %s: %q", errWord, name, text)
	}
	return strings.TrimSpace(string(text)), nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lines is a log that tests read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func open(t *testing.T, path string) (*File[string], *lines) {
	t.Helper()
	log := &lines{}
	f, err := Open(Options{Kind: "words", Path: path, Logger: slog.New(slog.NewTextHandler(log, nil))}, word)
	if err != nil {
		t.Fatal(err)
	}
	return f, log
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "word")
	if _, err := Open(Options{Path: path}, word); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a file that is not there: %v", err)
	}
	write(t, path, "two words")
	if _, err := Open(Options{Path: path}, word); !errors.Is(err, errWord) {
		t.Fatalf("a bad file: %v", err)
	}
	write(t, path, "one")
	f, log := open(t, path)
	var told []string
	f.OnChange(func(s string) { told = append(told, s) })
	check := func(what, want string, changed bool, problem error) {
		t.Helper()
		got, err := f.Check()
		if f.Current() != want || got != changed || !errors.Is(err, problem) {
			t.Fatalf("%s: %q, changed is %v, %v", what, f.Current(), got, err)
		}
	}
	check("as it was", "one", false, nil)
	write(t, path, "two")
	check("written over", "two", true, nil)
	write(t, path, "not good")
	check("bad", "two", false, errWord)
	check("bad again", "two", false, errWord)
	if n := log.count("level=ERROR"); n != 1 {
		t.Errorf("%d lines for one problem:\n%s", n, log.text.String())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("gone", "two", false, os.ErrNotExist)
	write(t, path, strings.Repeat("x", BytesMax+1))
	check("too long", "two", false, ErrFile)
	write(t, path, "two")
	check("back", "two", false, nil)
	other := path + ".new"
	write(t, other, "three")
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	check("renamed into place", "three", true, nil)
	if got := strings.Join(told, " "); got != "one two three" {
		t.Errorf("told of %q", got)
	}
	if got, want := gathered(t, f), "tickmesh_rule_file_good 1, tickmesh_rule_file_reloads_total accepted 2, tickmesh_rule_file_reloads_total refused 3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// gathered returns a collector's metrics as text.
func gathered(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			text := family.GetName()
			for _, label := range m.GetLabel() {
				if label.GetName() == "outcome" {
					text += " " + label.GetValue()
				}
			}
			all = append(all, fmt.Sprint(text, " ", m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return strings.Join(all, ", ")
}

// Kubernetes mounts a folder whose files are links through ..data, which it swaps.
func TestSymlinkSwap(t *testing.T) {
	dir := t.TempDir()
	for version, text := range []string{"old", "new"} {
		folder := filepath.Join(dir, fmt.Sprintf("..v%d", version))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "word"), text)
	}
	link := func(to, at string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	link("..v0", "..data")
	link(filepath.Join("..data", "word"), "word")
	f, _ := open(t, filepath.Join(dir, "word"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }()
	link("..v1", "..tmp")
	if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); f.Current() != "new"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the change is not noticed")
		}
	}
	cancel()
	<-ended
}

func TestValues(t *testing.T) {
	top, err := Parse("f", []byte("size: 2KiB\nspan: 1d\ncount: 7\nlist: [a, b]\nbad: [1, [2]]\n"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Value{}
	entries, err := top.Entries()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all[e.Key] = e.Value
	}
	if n, err := all["size"].Bytes(); n != 2048 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if d, err := all["span"].Span(); d != 24*time.Hour || err != nil {
		t.Errorf("%v, %v", d, err)
	}
	if n, err := all["count"].Count(); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if list, err := all["list"].Texts(); strings.Join(list, "") != "ab" || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := all["bad"].Texts(); !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), "f:5: bad[1]: expected a single value") {
		t.Errorf("%v", err)
	}
	for name, v := range all {
		if _, err := v.Bytes(); (err == nil) != (name == "size" || name == "count") {
			t.Errorf("%s as a size: %v", name, err)
		}
		if _, err := v.Entries(); !errors.Is(err, ErrFile) {
			t.Errorf("%s as a mapping: %v", name, err)
		}
	}
}

// A text of aliases that would grow without end is refused, and so is everything else that
// is no plain document.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "a: b", "a: &x [1]\nb: [*x, *x]", "- a\n- b", "? [a]\n: b", "a: !!binary x", "\xff", "%YAML 1.2\n---\na: 1"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		top, err := Parse("f", text)
		if err != nil {
			if !errors.Is(err, ErrFile) {
				t.Fatal(err)
			}
			return
		}
		walk(t, top, 0)
	})
}

func walk(t *testing.T, v Value, depth int) {
	entries, err := v.Entries()
	if err == nil {
		seen := map[string]bool{}
		for _, e := range entries {
			if seen[e.Key] {
				t.Fatalf("%q twice", e.Key)
			}
			seen[e.Key] = true
			walk(t, e.Value, depth+1)
		}
		return
	}
	if list, err := v.List(); err == nil {
		for _, item := range list {
			walk(t, item, depth+1)
		}
	}
	_, _ = v.Text()
}
