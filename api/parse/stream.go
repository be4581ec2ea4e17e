package parse

import "bytes"

//nolint:gochecknoglobals // constants
var newline = []byte{'\n'}

// stream is the place of a line parser in a stream that comes in pieces.
type stream struct {
	body         []byte
	inside       bool
	lineBytesMax int
	remedy       string // what the error of a line that is too long ends with
	number       uint32 // of the current line, from 1; before the first one that of the line before
}

// start returns where the first line starts: behind the rest of a line that was
// refused before.
func (s *stream) start() int {
	if !s.inside {
		return 0
	}
	i := bytes.IndexByte(s.body, '\n')
	if i < 0 {
		return len(s.body)
	}
	s.inside = false
	return i + 1
}

// lines calls line for each line, whose number is set, until one fails. Partial: the last one goes on in the next piece if it
// has no end. It returns where the first line starts that is not done.
func (s *stream) lines(partial bool, line func(Span) error) (at int, err error) {
	for at = s.start(); at < len(s.body); {
		s.number++
		length := bytes.IndexByte(s.body[at:], '\n')
		if length < 0 {
			if partial {
				break
			}
			length = len(s.body) - at
		}
		if err = line(Span{uint32(at), uint32(at + length)}); err != nil {
			return at, err
		}
		at += length + 1
	}
	return at, nil
}

// rest returns how to go on, the lines before at being done. A last piece that is
// longer than a line may be is an error; the next call skips what follows of it.
func (s *stream) rest(b *Batch, form Form, at, errorsMax int) Rest {
	at = min(at, len(s.body))
	left := len(s.body) - at
	if left > s.lineBytesMax {
		excerpt := Span{uint32(at), uint32(at + ExcerptBytesMax)}
		excerpt.End = min(excerpt.End, uint32(len(s.body)))
		l := Line{Text: excerpt, Number: s.number, Form: form}
		b.AddError(&l, 1, KindLimit, lineTooLong(s.lineBytesMax)+s.remedy, errorsMax)
		return Rest{Consumed: len(s.body), Lines: s.number, InsideLine: true}
	}
	lines := s.number
	if left > 0 {
		lines-- // the line comes again
	}
	return Rest{Consumed: at, Lines: lines, InsideLine: s.inside}
}
