package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNilSetDoesNothing(t *testing.T) {
	var s *Set
	if err := s.Hit("a/b"); err != nil || s.Hits("a/b") != 0 {
		t.Fatal("a nil set acted")
	}
	if s, err := Parse(" ", nil); s != nil || err != nil {
		t.Fatal("the empty configuration is not the nil set")
	}
}

func TestErrorOnNthHit(t *testing.T) {
	s, err := Parse("a/once=error@3; a/always=error", []string{"a/once", "a/always", "a/never"})
	if err != nil {
		t.Fatal(err)
	}
	for hit := 1; hit <= 5; hit++ {
		if err := s.Hit("a/once"); (err != nil) != (hit == 3) {
			t.Errorf("hit %d of a/once gave %v", hit, err)
		}
		if err := s.Hit("a/always"); !errors.Is(err, ErrHit) || !strings.Contains(err.Error(), "a/always") {
			t.Errorf("hit %d of a/always gave %v", hit, err)
		}
		if err := s.Hit("a/never"); err != nil {
			t.Error(err)
		}
	}
	if s.Hits("a/never") != 5 {
		t.Errorf("%d hits of a/never, want 5", s.Hits("a/never"))
	}
}

func TestDelay(t *testing.T) {
	const delay = 2 * time.Millisecond
	s, err := Parse("a=delay:2ms@2", []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	for hit := 1; hit <= 2; hit++ {
		start := time.Now()
		if err := s.Hit("a"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); hit == 2 && took < delay {
			t.Fatalf("it took %v", took)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{
		"a", "b=error", "a=", "a=explode", "a=kill@", "a=kill@0", "a=kill@x", "a=kill@-1", "a=error;a=kill", "a=error;;",
		"a=delay", "a=delay:", "a=delay:x", "a=delay:0s", "a=delay:-1s", "a=kill:1s",
	} {
		if s, err := Parse(bad, []string{"a"}); err == nil || s != nil {
			t.Errorf("Parse(%q) gave no error", bad)
		}
	}
}

// TestKill runs itself as another process, which must die by SIGKILL at the
// second hit.
func TestKill(t *testing.T) {
	const variable = "FAILPOINT_TEST_KILL"
	if configuration := os.Getenv(variable); configuration != "" {
		s, err := Parse(configuration, []string{"a"})
		if err != nil {
			os.Exit(2)
		}
		_ = s.Hit("a")
		_ = s.Hit("a")
		os.Exit(3)
	}
	command := exec.Command(os.Args[0], "-test.run=^TestKill$")
	command.Env = append(os.Environ(), variable+"=a=kill@2")
	err := command.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("the other process ended with %v", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the other process ended with %v, want SIGKILL", exit)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a=kill@3;b=error")
	f.Add("a=error")
	f.Add(";=@")
	f.Fuzz(func(t *testing.T, configuration string) {
		s, err := Parse(configuration, []string{"a", "b"})
		if err != nil && s != nil {
			t.Fatal("both a set and an error")
		}
		if s == nil {
			return
		}
		s.kill = func() {}
		for range 3 {
			_ = s.Hit("a")
		}
	})
}

func BenchmarkHitNil(b *testing.B) {
	var s *Set
	for b.Loop() {
		if s.Hit("a") != nil {
			b.Fatal("hit")
		}
	}
}
