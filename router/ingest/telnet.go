package ingest

import (
	"bytes"
	"fmt"

	"github.com/tickmesh/tickmesh/api/parse"
)

// reply sends the errors of a chunk, one line each, and the answers to its
// commands, in the order of the lines. Everything in the chunk has been written
// before, so a command's answer tells the client that its puts are done.
func (s *stream) reply(b *parse.Batch, r result, err error) {
	if err == nil && b.ErrorsTotal == 0 && len(b.Commands) == 0 {
		return
	}
	text := s.text[:0]
	if err != nil && r.failed > 0 {
		text = s.appendDropped(text, r, err)
	}
	next := 0
	errorsUntil := func(number int) {
		for ; next < len(b.Errors) && b.Errors[next].Number <= number; next++ {
			from := len(text)
			text = b.Errors[next].AppendTo(text)
			text = append(oneLineInPlace(text, from), '\n')
		}
	}
	for i := range b.Commands {
		if len(text) > s.replies.bytesMax || s.leaving {
			break // the rest would be dropped
		}
		c := &b.Commands[i]
		errorsUntil(c.Number)
		text = s.appendAnswer(text, b.Body[c.Text.Start:c.Text.End])
	}
	if !s.leaving {
		errorsUntil(int(^uint(0) >> 1))
		if more := b.ErrorsTotal - len(b.Errors); more > 0 {
			text = fmt.Appendf(text, "and %d more lines with errors\n", more)
		}
	}
	s.replies.send(text)
	if s.text = text; cap(text) > unfinishedBytesKept {
		s.text = nil
	}
}

func (s *stream) appendDropped(text []byte, r result, err error) []byte {
	if s.protocol == protocolPutTCP {
		text = append(text, "put: Please throttle writes: "...)
	}
	from := len(text)
	text = fmt.Appendf(text, "%d points dropped: %v", r.failed, err)
	return append(oneLineInPlace(text, from), '\n')
}

// oneLineInPlace makes spaces of the line ends in text from an index on.
func oneLineInPlace(text []byte, from int) []byte {
	for i := from; i < len(text); i++ {
		if text[i] == '\n' || text[i] == '\r' {
			text[i] = ' '
		}
	}
	return text
}

// appendAnswer answers one command in OpenTSDB's words.
func (s *stream) appendAnswer(text, line []byte) []byte {
	word, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	build := &s.options.Build
	switch string(word) {
	case "version":
		text = fmt.Appendf(text, "tickmesh %s built at revision %s\n", build.Version, build.Revision)
		return fmt.Appendf(text, "Built on %s\n", build.Date)
	case "stats":
		return append(text, s.stats()...)
	case "help":
		return append(text, "available commands: dropcaches exit help put quit stats status version \n"...)
	case "exit", "quit":
		s.leaving = true
		return text
	case "auth":
		if s.options.Authenticator == nil { // everybody may do everything
			return append(text, authSuccess+"\n"...)
		}
		return append(text, authFail+": this connection has said already who it is\n"...)
	case "dropcaches": // what is cached is bounded and checked: there is nothing to drop
		return append(text, "Caches dropped.\n"...)
	case "status":
		return append(text, "ok\n"...)
	case "diediedie":
		return append(text, "diediedie: not supported, stop the process with a signal\n"...)
	default:
		text = append(text, "unknown command: "...)
		from := len(text)
		text = oneLineInPlace(append(text, word[:min(len(word), wordBytesMax)]...), from)
		return append(text, ".  Try `help'.\n"...)
	}
}

// wordBytesMax bounds what is echoed of an unknown command.
const wordBytesMax = 256
