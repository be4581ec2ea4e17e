package failpoint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrHit is what a place that was told to fail returns, wrapped with its name.
var ErrHit = errors.New("failpoint hit")

// Action is what happens at a place.
type Action uint8

// The actions.
const (
	ActionError Action = iota // Hit returns an error
	ActionKill                // the process kills itself with SIGKILL
	ActionHang                // Hit never returns
	ActionDelay               // Hit returns nil after a while
)

// Set describes at which places something happens. It is safe for use by many
// goroutines; nil is an empty set.
type Set struct {
	mu struct {
		sync.Mutex
		points map[string]*point
		hits   map[string]int64
	}
	kill func() // replaced in tests
}

type point struct {
	action Action
	delay  time.Duration // of ActionDelay
	on     int64         // the hit at which it happens; 0: every one
	hits   int64
}

// Parse reads a configuration such as
//
//	checkpoint/before-publish=kill@3;wal/after-write=error;wal/before-sync=delay:20ms
//
// where @n means the nth hit alone, and without it every hit acts. The empty
// configuration returns nil. Names that the catalogue does not have are refused.
func Parse(configuration string, catalogue []string) (*Set, error) {
	if strings.TrimSpace(configuration) == "" {
		return nil, nil
	}
	s := &Set{kill: killSelf}
	s.mu.points = map[string]*point{}
	s.mu.hits = map[string]int64{}
	for clause := range strings.SplitSeq(configuration, ";") {
		name, action, ok := strings.Cut(strings.TrimSpace(clause), "=")
		if !ok {
			return nil, fmt.Errorf("failpoint %q: want name=action or name=action@n", clause)
		}
		if !slices.Contains(catalogue, name) {
			return nil, fmt.Errorf("failpoint %q is not known; known are %s", name, strings.Join(catalogue, ", "))
		}
		if s.mu.points[name] != nil {
			return nil, fmt.Errorf("failpoint %q is configured twice", name)
		}
		p, err := parseAction(action)
		if err != nil {
			return nil, fmt.Errorf("failpoint %q: %w", name, err)
		}
		s.mu.points[name] = p
	}
	return s, nil
}

func parseAction(text string) (*point, error) {
	verb, count, counted := strings.Cut(text, "@")
	p := &point{}
	verb, argument, _ := strings.Cut(verb, ":")
	switch verb {
	case "delay":
		var err error
		if p.delay, err = time.ParseDuration(argument); err != nil || p.delay <= 0 {
			return nil, fmt.Errorf("delay %q: want a duration, as in delay:20ms", argument)
		}
		p.action = ActionDelay
	case "error":
		p.action = ActionError
	case "kill":
		p.action = ActionKill
	case "hang":
		p.action = ActionHang
	default:
		return nil, fmt.Errorf("action %q: want error, kill, hang or delay", verb)
	}
	if argument != "" && p.action != ActionDelay {
		return nil, fmt.Errorf("action %q: %s takes no argument", text, verb)
	}
	if counted {
		n, err := strconv.ParseInt(count, 10, 32)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("count %q: want a number from 1 on", count)
		}
		p.on = n
	}
	return p, nil
}

// Hit marks a place. It returns nil, or an error that wraps ErrHit, or does not
// return at all.
func (s *Set) Hit(name string) error {
	if s == nil {
		return nil
	}
	return s.hit(name)
}

func (s *Set) hit(name string) error {
	s.mu.Lock()
	s.mu.hits[name]++
	p := s.mu.points[name]
	acts := false
	if p != nil {
		p.hits++
		acts = p.on == 0 || p.on == p.hits
	}
	s.mu.Unlock()
	switch {
	case !acts:
		return nil
	case p.action == ActionKill:
		s.kill()
	case p.action == ActionHang:
		select {}
	case p.action == ActionDelay:
		time.Sleep(p.delay)
		return nil
	}
	return fmt.Errorf("%w: %s", ErrHit, name)
}

// Hits returns how often a place has been passed.
func (s *Set) Hits(name string) int64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.hits[name]
}

// killSelf ends the process as kill -9 does: nothing is flushed, nothing runs.
func killSelf() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // the signal may take a moment; nothing after this place may run
}
