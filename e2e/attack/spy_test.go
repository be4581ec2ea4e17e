package attack

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

// spy looks in what is received for secrets: parts of the names and values that others have stored.
type spy struct {
	secrets []string
	mu      sync.Mutex
	leaks   []string
}

func newSpy(secrets ...string) *spy { return &spy{secrets: secrets} }

// leaksMax bounds what is told of one test.
const leaksMax = 40

// see notes whether an answer holds the secret. The question may hold it: an answer that
// repeats only that tells nothing, so the caller says what was sent.
func (s *spy) see(what string, sent string, received []byte) {
	if sent != "" {
		received = bytes.ReplaceAll(received, []byte(sent), nil)
	}
	for _, secret := range s.secrets {
		at := bytes.Index(received, []byte(secret))
		if at < 0 {
			continue
		}
		s.mu.Lock()
		if len(s.leaks) < leaksMax {
			s.leaks = append(s.leaks, fmt.Sprintf("%s: …%q…", what, received[max(0, at-80):min(len(received), at+60)]))
		}
		s.mu.Unlock()
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

// take returns the leaks since the last time.
func (s *spy) take() (leaks []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leaks, s.leaks = s.leaks, nil
	return leaks
}

// report fails the test for each leak since the last report.
func (s *spy) report(t *testing.T) {
	t.Helper()
	for _, leak := range s.take() {
		t.Errorf("another's data or name is shown: %s", leak)
	}
}
