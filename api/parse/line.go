package parse

import "bytes"

// LineOptions are the arguments of Lines.
type LineOptions struct {
	Limits Limits
	// Precision is the unit of the timestamps.
	Precision Precision
	// NowMs is the time of points without a timestamp, in ms since the epoch.
	NowMs int64
	// Partial reports that more bytes of the stream may follow: a last line
	// without newline is left for the next call.
	Partial bool
	// LinesBefore is the number of lines of the stream before the body.
	LinesBefore uint32
	// InsideLine reports that the body starts inside a line that was refused for
	// its length; everything up to the first newline is skipped.
	InsideLine bool
	// RefuseText reports that strings are errors of their lines, whose other fields are taken all the same.
	RefuseText bool
}

// Rest describes what is left of a stream's bytes after a partial parse.
type Rest struct {
	Consumed   int    // bytes of the body that are done with
	Lines      uint32 // the next call's LinesBefore
	InsideLine bool   // the next call's InsideLine
}

// Lines parses InfluxDB line protocol as InfluxDB 1.8 does (models/points.go),
// with these differences:
//
//   - integers, unsigned integers and booleans become numbers; strings are
//     checked and counted, or refused by RefuseText, and make no point
//   - unsigned integers (suffix u) are always on
//   - a carriage return before the newline is taken off
//   - timestamps are rounded down to milliseconds
//   - a comma in front of a field's name is an error wherever it stands; InfluxDB
//     only counts commas, and takes some
//   - a tag named _field is refused, as it would be confused with a field
//
// Its errors are ErrTooLarge and those of b.Memory; errors of lines are in b.Errors.
func Lines(b *Batch, body []byte, o LineOptions) (Rest, error) {
	if err := b.reset(body); err != nil {
		return Rest{}, err
	}
	p := lineParser{
		b:         b,
		pad:       padded(body),
		end:       len(body),
		points:    b.Points[:cap(b.Points)],
		precision: o.Precision,
		limits:    o.Limits.WithDefaults(),
		noTimeMs:  o.Precision.truncateMs(o.NowMs),

		refuseText: o.RefuseText,
	}
	stream := stream{body: body, inside: o.InsideLine, lineBytesMax: p.limits.LineBytesMax, number: o.LinesBefore}
	at := stream.start()
	for at < p.end {
		if err := p.room(); err != nil {
			b.Reset()
			return Rest{}, err
		}
		stream.number++
		p.number = stream.number
		if next, ok := p.fast(at); ok {
			at = next
			continue
		}
		stop := lineEnd(body, at)
		if stop == p.end && o.Partial {
			break
		}
		p.general(at, stop)
		stream.number += uint32(bytes.Count(body[at:stop], newline))
		at = stop + 1
	}
	b.Points = p.points[:p.count]
	return stream.rest(b, FormLine, at, p.limits.ErrorsMax), nil
}

// LinesEnd reports whether the newline at the end of body ends its last line: it does
// not inside a string and behind a backslash. Bodies of several senders may be
// joined only if theirs does.
func LinesEnd(body []byte) bool {
	if bytes.IndexByte(body, '"') < 0 && bytes.IndexByte(body, '\\') < 0 {
		return true
	}
	for at := 0; at < len(body); {
		stop := lineEnd(body, at)
		if stop == len(body) {
			return false
		}
		at = stop + 1
	}
	return true
}

// lineParser holds what the parse of one body needs at hand.
type lineParser struct {
	b         *Batch
	pad       []byte // the body and some bytes behind it
	end       int    // of the body
	points    []Point
	count     int // of points
	number    uint32
	precision Precision
	limits    Limits
	noTimeMs  int64

	// Where the points of the line before begin, and how many they are: its
	// field names are the guess for the next line's.
	guess, guessCount int

	// The last timestamp that the fast path has read: where it is, with the
	// newline behind it, and its time.
	stamp, stampBytes int
	stampMs           int64

	fastStrings int // strings that fastFields has skipped

	refuseText bool
	firstText  []byte // the name of the first field of a line that holds a string, as it is written
}

// addLine appends the line of the points from first on. Same says that its field
// names are those of the line before.
func (p *lineParser) addLine(head, text Span, first int, same bool) {
	lines := p.b.Lines
	shape := uint32(len(lines))
	if same && shape > 0 {
		shape = lines[shape-1].Shape
	}
	p.b.Lines = append(lines, Line{
		Head:   head,
		Tags:   Span{head.End, head.End},
		Text:   text,
		First:  uint32(first),
		Count:  uint32(p.count - first),
		Shape:  shape,
		Number: p.number,
		Form:   FormLine,
	})
	p.guess, p.guessCount = first, p.count-first
}

// room is Batch.room; the points are in p while lines are read.
func (p *lineParser) room() error {
	if len(p.b.Lines) < cap(p.b.Lines) && len(p.points)-p.count >= pointsAhead {
		return nil
	}
	p.b.Points = p.points[:p.count]
	err := p.b.makeRoom()
	p.points = p.b.Points[:cap(p.b.Points)]
	return err
}

// growPoints is for lines of more points than room has made room for.
func (p *lineParser) growPoints() {
	p.points = append(p.points, make([]Point, 256+len(p.points))...)
	p.points = p.points[:cap(p.points)]
}
