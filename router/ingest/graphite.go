package ingest

import (
	"github.com/tickmesh/tickmesh/api/parse"
)

// graphiteContent is what a connection of Graphite's port sends. Its first byte behind the introduction tells: a
// frame of pickles is shorter than 16 MiB, so that it begins with a zero, and no line does.
type graphiteContent uint8

const (
	graphiteUnknown graphiteContent = iota
	graphiteLines
	graphitePickles
)

// sendsPickles reports whether the connection sends pickles, of which some are fresh.
func (s *stream) sendsPickles(fresh []byte) bool {
	if s.protocol != protocolGraphiteTCP {
		return false
	}
	if s.content == graphiteUnknown {
		s.content = graphiteLines
		if fresh[0] == 0 {
			s.content = graphitePickles
		}
	}
	return s.content == graphitePickles
}

// pickleWorkBytes returns what the next chunk may become while it is parsed, where it may be pickles. Before it
// is known who sends, nothing is parsed: who waits for a check of a password holds no more than on other ports.
func (s *stream) pickleWorkBytes() int {
	if s.protocol != protocolGraphiteTCP || s.content == graphiteLines || s.principal == nil {
		return 0
	}
	return min(parse.PickleWorkBytesMax, parse.PickleWorkMultiple*(len(s.unfinished)+s.options.TCP.ChunkBytes))
}

// hasFrames reports whether frames have ended that were not written yet, as they came behind an introduction.
func (s *stream) hasFrames() bool {
	return s.content == graphitePickles && parse.HasPickle(s.unfinished)
}

// processPickles writes the frames that have ended. The buffer has room for all that is unfinished.
func (s *stream) processPickles(buffer, fresh []byte) {
	s.unfinished = append(s.unfinished, fresh...)
	for !s.leaving && s.base.Err() == nil && parse.HasPickle(s.unfinished) {
		s.process(buffer[:copy(buffer, s.unfinished)])
	}
}

// parseGraphite parses what the connection has turned out to send. After a frame whose end nobody knows it is not
// listened to any more.
func (s *stream) parseGraphite(b *parse.Batch, chunk []byte, o parse.GraphiteOptions) (rest parse.Rest, err error) {
	if s.content != graphitePickles {
		return parse.Graphite(b, chunk, o)
	}
	if rest, err = parse.GraphitePickle(b, chunk, o); err != nil {
		s.leaving = true
		s.metrics.protocols[s.protocol].refused.Add(1)
	}
	return rest, err
}

// done hears what became of a chunk. Clients of Graphite read no answers, and an answer that nobody has read
// when the client closes would cost what it has sent last.
func (s *stream) done(b *parse.Batch, r result, err error) {
	if s.protocol != protocolGraphiteTCP {
		s.reply(b, r, err)
		return
	}
	if err == nil && b.ErrorsTotal > 0 {
		s.log.Warn("Graphite: points with errors", "from", s.conn.RemoteAddr().String(), "points", b.ErrorPoints, "first", b.Errors[0].Error())
	}
}

// tell reports what is wrong beside single lines: to the client, or to the log where it would not read it.
func (s *stream) tell(asPut, text string) {
	switch s.protocol {
	case protocolGraphiteTCP:
		s.log.Warn("Graphite: "+text, "from", s.conn.RemoteAddr().String())
		return
	case protocolPutTCP:
		text = asPut + text
	}
	s.replies.send([]byte(text + "\n"))
}
