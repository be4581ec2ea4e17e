package interchange

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of what is held of line protocol.
const (
	lineBytesMax  = 256 << 10
	blockBytesMax = 1 << 20
)

// lineReader reads line protocol, and comments that hold a sample.
type lineReader struct {
	in      *bufio.Reader
	options ReadOptions
	batch   parse.Batch
	keys    parse.KeyBuilder
	block   []byte // lines that wait
	whole   int    // bytes of the block that are whole lines: a newline may stand in a string
	open    openLine
	number  int64 // of the lines before the block
}

func newLineReader(in io.Reader, o ReadOptions) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10), options: o}
}

func (l *lineReader) read(visit Visitor) error {
	for {
		start := len(l.block)
		err := l.next()
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		private := start == l.whole && bytes.HasPrefix(l.block[start:], []byte(linePrivate))
		if private || l.open.ends(l.block[start:]) {
			l.whole = len(l.block)
		}
		switch {
		case private:
			if err := l.flush(start, visit); err != nil {
				return err
			}
			if err := l.private(string(l.block), visit); err != nil {
				return &PlaceError{"line", l.number + 1, err}
			}
			l.block, l.whole, l.number = l.block[:0], 0, l.number+1
		case ended:
			return l.flush(len(l.block), visit)
		case len(l.block) >= blockBytesMax && l.whole == len(l.block):
			if err := l.flush(len(l.block), visit); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

// openLine finds, a piece after the other, the newline that ends a line: as
// parse.LinesEnd does for a whole body.
type openLine struct {
	escaped, fields, quoted bool
	equals, commas          int
}

// ends takes a piece up to its only newline and reports whether that ends the line.
func (o *openLine) ends(piece []byte) bool {
	for _, c := range piece {
		switch {
		case o.escaped:
			o.escaped = false
		case c == '\\':
			o.escaped = true
		case c == '\n' && !o.quoted:
			*o = openLine{}
			return true
		case c == ' ':
			o.fields = true
		case !o.fields:
		case c == '=' && !o.quoted:
			o.equals++
		case c == ',' && !o.quoted:
			o.commas++
		case c == '"' && o.equals > o.commas:
			o.quoted = !o.quoted
		}
	}
	return false
}

// next appends a line, with its newline, to the block. io.EOF comes with the last
// one.
func (l *lineReader) next() error {
	for {
		part, err := l.in.ReadSlice('\n')
		l.block = append(l.block, part...)
		if len(l.block)-l.whole > lineBytesMax {
			return &PlaceError{"line", l.number + 1 + int64(bytes.Count(l.block[:l.whole], []byte{'\n'})),
				fmt.Errorf("%w: longer than %d bytes", ErrFormat, lineBytesMax)}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// flush visits the first n bytes of the block and takes them off.
func (l *lineReader) flush(n int, visit Visitor) error {
	b := &l.batch
	_, err := parse.Lines(b, l.block[:n], parse.LineOptions{
		Limits: largestLimits(), Precision: l.options.Precision, NowMs: l.options.NowMs,
	})
	if err != nil {
		return err
	}
	if len(b.Errors) > 0 {
		e := &b.Errors[0]
		return &PlaceError{"line", l.number + int64(e.Number), fmt.Errorf("%w: %w", ErrFormat, e)}
	}
	for i := range b.Lines {
		if err := l.visitLine(&b.Lines[i], visit); err != nil {
			return err
		}
	}
	l.number += int64(bytes.Count(l.block[:n], []byte{'\n'}))
	l.block = l.block[:copy(l.block, l.block[n:])]
	l.whole = max(0, l.whole-n)
	return nil
}

func (l *lineReader) visitLine(line *parse.Line, visit Visitor) error {
	wrong := func(err error) error {
		return &PlaceError{"line", l.number + int64(line.Number), fmt.Errorf("%w: %w", ErrFormat, err)}
	}
	if err := l.keys.Start(&l.batch, line, []byte(l.options.Database), largestLimits()); err != nil {
		return wrong(err)
	}
	for i := range l.batch.Points[line.First : line.First+line.Count] {
		p := &l.batch.Points[int(line.First)+i]
		key, err := l.keys.Key(l.batch.Field(p), p.FieldEscaped)
		if err != nil {
			return wrong(err)
		}
		if err := visit(key, p.TimeMs, series.Float64(p.Mantissa, p.Scale)); err != nil {
			return err
		}
	}
	return nil
}

// private visits the sample of a comment.
func (l *lineReader) private(line string, visit Visitor) error {
	fields := strings.Fields(strings.TrimPrefix(line, linePrivate))
	if len(fields) != 3 {
		return fmt.Errorf("%w: expected a key, a time and a value behind %q", ErrFormat, linePrivate)
	}
	key, err := parseKey(fields[0], l.options.Database)
	if err != nil {
		return err
	}
	timeMs, err := parseTimeMs(fields[1])
	if err != nil {
		return err
	}
	value, err := parseBits(fields[2])
	if err != nil {
		return err
	}
	return visit(key, timeMs, value)
}
