package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
)

// Bounds of how long, and how much, a connection may send before it has said who it is.
const (
	introductionTimeout  = 30 * time.Second
	introductionBytesMax = 9 << 10 // a token of an OpenID Connect issuer has up to 8 KiB
)

// OpenTSDB's answers to the command auth (AuthenticationChannelHandler.java).
const (
	authSuccess = "AUTH_SUCCESS"
	authFail    = "AUTH_FAIL"
)

const authAdvice = "the first line must be `auth USER PASSWORD` or `auth token TOKEN`"

// begin finds out who connects, where the certificate says it; else the first line has to.
func (s *stream) begin() {
	if s.options.Authenticator == nil {
		s.principal = access.Anyone()
		return
	}
	if certificate := s.conn.certificate(); certificate != nil {
		p, err := s.options.Authenticator.Authenticate(s.base, access.Credentials{Certificate: certificate, From: s.conn.RemoteAddr()})
		if err == nil {
			s.principal = p
			return
		}
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(introductionTimeout))
}

// introduce reads the first line of a connection, which says who it is, and then what is
// behind it. A connection that does not say it is told so and closed.
func (s *stream) introduce(chunk []byte) {
	line, rest, found := bytes.Cut(chunk, []byte("\n"))
	if !found && len(chunk) <= introductionBytesMax {
		s.unfinished = append(s.unfinished[:0], chunk...)
		s.wait()
		s.leaving = s.insideLine // there is no room for it
		return
	}
	s.unfinished = nil
	p, err := s.authenticate(line)
	if err == nil {
		err = access.May(p, s.targets[s.protocol].account.Name(), access.Write)
	}
	if err != nil {
		s.deny(err)
		return
	}
	s.principal = p
	_ = s.conn.SetReadDeadline(time.Time{})
	if s.conn.listener.draining.Load() { // it has set its own meanwhile
		_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	}
	if s.protocol != protocolGraphiteTCP {
		s.replies.send([]byte(authSuccess + "\n"))
	}
	switch {
	case len(rest) == 0:
	case s.sendsPickles(rest):
		s.unfinished = append(s.unfinished, rest...) // the next turn pays for what they become
	default:
		s.process(rest)
	}
	s.wait()
}

// authenticate finds out who sends a first line.
func (s *stream) authenticate(line []byte) (access.Principal, error) {
	given, ok := parseIntroduction(line)
	if !ok {
		return nil, fmt.Errorf("%w; %s", access.ErrMissing, authAdvice)
	}
	given.From = s.conn.RemoteAddr()
	return s.options.Authenticator.Authenticate(s.base, given)
}

// parseIntroduction reads the command auth: `auth USER PASSWORD`, `auth basic USER PASSWORD` as
// OpenTSDB has it, or `auth token TOKEN`. False: it is none of these.
func parseIntroduction(line []byte) (given access.Credentials, ok bool) {
	if len(line) > introductionBytesMax {
		return given, false
	}
	words := strings.Fields(string(line))
	if len(words) < 3 || words[0] != "auth" {
		return given, false
	}
	switch {
	case len(words) == 3 && words[1] == "token":
		given.Token = words[2]
	case len(words) == 3:
		given.User, given.Password = words[1], words[2]
	case len(words) == 4 && words[1] == "basic":
		given.User, given.Password = words[2], words[3]
	default:
		return given, false
	}
	return given, true
}

// deny answers the client why it is not let in, and ends the connection.
func (s *stream) deny(err error) {
	text := fmt.Appendf(nil, "%s: %v", authFail, err)
	s.replies.send(append(oneLineInPlace(text, 0), '\n'))
	s.leaving = true
	e := audit.Event{Time: time.Now(), From: s.conn.RemoteAddr().String(), Protocol: protocolNames[s.protocol], Action: "auth", Outcome: audit.Refused, Error: err.Error()}
	e.Tried(err)
	if denied := (*access.DeniedError)(nil); errors.As(err, &denied) {
		e.User, e.Database = denied.Principal, access.Display(denied.Database)
	}
	if s.principal != nil {
		e.Action = "write"
		e.By, e.Credential = access.ProofOf(s.principal)
	}
	s.options.Audit.Record(e)
}
