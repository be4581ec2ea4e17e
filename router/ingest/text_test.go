package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A JSON string reads back as encoding/json would have written it.
func FuzzJSONString(f *testing.F) {
	for _, seed := range []string{"", "a\"b\\c", "\x00\x1f\x7f", "µ€😀", "\xff\xc3(", "\u2028", "\xf0\x9f\x98"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := appendJSONString(nil, text)
		if same := appendJSONString(nil, []byte(text)); !bytes.Equal(got, same) {
			t.Fatalf("bytes and string differ: %q, %q", got, same)
		}
		oracle, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var back, want string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if err := json.Unmarshal(oracle, &want); err != nil {
			t.Fatal(err)
		}
		if back != want {
			t.Fatalf("%q became %q, want %q", text, back, want)
		}
	})
}

func TestDeadline(t *testing.T) {
	parent, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	d := newDeadline(parent)
	for range 3 {
		d.start(time.Hour)
		if d.Err() != nil || !d.rest() {
			t.Fatal("a deadline that has not passed ended:", d.Err())
		}
	}
	d.start(time.Nanosecond)
	<-d.Done()
	if !errors.Is(d.Err(), context.DeadlineExceeded) || d.rest() {
		t.Errorf("after its time: %v", d.Err())
	}
	d.release()
	d = newDeadline(parent)
	d.start(time.Hour)
	cancel(errStopped)
	<-d.Done()
	if !errors.Is(d.Err(), errStopped) || d.rest() {
		t.Errorf("after its parent: %v", d.Err())
	}
}

func TestLimitedLog(t *testing.T) {
	var out bytes.Buffer
	now := testNow
	l := &limitedLog{log: slog.New(slog.NewTextHandler(&out, nil)), clock: func() time.Time { return now }}
	for range 5 {
		l.warn("w")
	}
	now = now.Add(limitedLogInterval)
	l.warn("w")
	if got := strings.Count(out.String(), "\n"); got != 2 || !strings.Contains(out.String(), "left_out=4") {
		t.Errorf("%s", out.String())
	}
}
