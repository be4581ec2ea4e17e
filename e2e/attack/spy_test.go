package attack

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

// spy looks for a secret in what attackers receive; an empty one is never found.
type spy struct {
	secret []byte
	mu     sync.Mutex
	leaks  []string
}

func newSpy(secret string) *spy { return &spy{secret: []byte(secret)} }

// leaksMax bounds what is told of one test.
const leaksMax = 40

// see notes whether an answer holds the secret. The question may hold it: an answer that
// repeats only that tells nothing, so the caller says what was sent.
func (s *spy) see(what string, sent string, received []byte) {
	if len(s.secret) == 0 {
		return
	}
	received = bytes.ReplaceAll(received, []byte(sent), nil)
	at := bytes.Index(received, s.secret)
	if at < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.leaks) < leaksMax {
		s.leaks = append(s.leaks, fmt.Sprintf("%s: …%q…", what, received[max(0, at-80):min(len(received), at+60)]))
	}
}

// seeAnswer does so for the body and the headers of an answer.
func (s *spy) seeAnswer(what, sent string, a answer) {
	s.see(what, sent, a.body)
	for name, values := range a.header {
		for _, value := range values {
			s.see(what+", header "+name, sent, []byte(value))
		}
	}
}

// report fails the test for each leak since the last report.
func (s *spy) report(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, leak := range s.leaks {
		t.Errorf("another's data or name is shown: %s", leak)
	}
	s.leaks = nil
}
