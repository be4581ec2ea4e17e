package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/audit"
)

func lines(t *testing.T, text []byte) (events []audit.Event) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var e audit.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, e)
	}
	return events
}

func closed(t *testing.T, l *audit.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestLevels holds what is written down at which level, to a file that is added to.
func TestLevels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for _, all := range []bool{false, true} {
		l, err := audit.Open(audit.Options{Path: path, All: all})
		if err != nil {
			t.Fatal(err)
		}
		deed, refused := new(audit.Request), new(audit.Request)
		deed.Did(audit.Deed{Do: "delete", Database: "a"}, nil)
		deed.Did(audit.Deed{Do: "delete", Database: "a"}, errors.New("no space"))
		refused.Refuse(errors.New("no right"))
		for action, r := range map[string]*audit.Request{"query": new(audit.Request), "delete": deed, "denied": refused, "wrong password": nil} {
			e := audit.Event{Time: time.Now(), Action: action, Outcome: audit.OK}
			if r == nil {
				e.Outcome = audit.Refused
			}
			l.Finish(r, e)
		}
		closed(t, l)
		l.Record(audit.Event{}) // is counted, and does not panic
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]int{}
	for _, e := range lines(t, text) {
		outcomes[fmt.Sprint(e.Action, " ", e.Outcome, " ", len(e.Deeds))]++
	}
	want := map[string]int{"query ok 0": 1, "delete failed 1": 2, "denied refused 0": 2, "wrong password refused 0": 2}
	if fmt.Sprint(outcomes) != fmt.Sprint(want) {
		t.Errorf("%v", outcomes)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// TestBlockedPipe holds that a reader who does not read keeps nobody: events are counted and left out.
func TestBlockedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Open(audit.Options{Path: path}); err == nil {
		t.Error("a pipe that nobody reads is taken")
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	l, err := audit.Open(audit.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	const events = 10_000
	for range events { // would hang here
		l.Record(audit.Event{Error: strings.Repeat("x", 400)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	counts := outcomes(t, l)
	if len(counts) != 3 || counts["dropped"] == 0 || counts["dropped"]+counts["written"]+counts["failed"] > events {
		t.Errorf("%v", counts)
	}
}

// outcomes returns the counts of the log's metric by outcome.
func outcomes(t *testing.T, l *audit.Log) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(l)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v %v", families, err)
	}
	counts := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	return counts
}

// TestReopen holds that a file that was moved away is made anew on request.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := audit.Open(audit.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	for {
		l.Record(audit.Event{Action: "behind"})
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			break
		}
		time.Sleep(time.Millisecond) // the test's deadline bounds it
	}
	closed(t, l)
}

// fullDisk takes a number of bytes, and refuses the rest until there is room again.
type fullDisk struct {
	mu   sync.Mutex
	text []byte
	room int
}

func (d *fullDisk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(b), d.room)
	d.text, d.room = append(d.text, b[:n]...), d.room-n
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// TestFullDisk: an event that was cut by a full disk, or by the end of a process, is lost alone.
func TestFullDisk(t *testing.T) {
	for room := range 200 {
		disk := &fullDisk{room: room}
		l, err := audit.Open(audit.Options{Path: audit.Stderr, Stderr: disk})
		if err != nil {
			t.Fatal(err)
		}
		failed := func() float64 { return outcomes(t, l)["failed"] }
		for n := range 5 {
			if n == 3 {
				for failed()+outcomes(t, l)["written"] < 3 {
					runtime.Gosched()
				}
				disk.mu.Lock()
				disk.room = 1 << 20
				disk.mu.Unlock()
			}
			l.Record(audit.Event{Time: time.Now(), Action: fmt.Sprintf("event %d", n), Outcome: audit.Refused})
		}
		closed(t, l)
		whole := 0
		for line := range bytes.Lines(disk.text) {
			var e audit.Event
			if json.Unmarshal(line, &e) == nil {
				whole++
			}
		}
		if want := 5 - int(failed()); whole < want {
			t.Fatalf("room for %d bytes: %d events can be read, want %d:\n%s", room, whole, want, disk.text)
		}
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"time":"2026-`), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := audit.Open(audit.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	l.Record(audit.Event{Time: time.Now(), Action: "next", Outcome: audit.Refused})
	closed(t, l)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, rest, _ := bytes.Cut(text, []byte("\n")); len(lines(t, rest)) != 1 {
		t.Errorf("%s", text)
	}
}
