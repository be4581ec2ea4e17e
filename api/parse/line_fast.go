package parse

import "math"

// fast parses the line at pad[at:] if it is complete and of the common form:
//
//	head name=value,name=value… [timestamp]\n
//
// with single spaces, no control characters, and no backslashes behind the head;
// values are plain decimals, integers, t, f, true, false, and strings. It returns
// the start of the next line, or ok = false and has changed nothing that counts.
func (p *lineParser) fast(at int) (next int, ok bool) {
	pad := p.pad
	headEnd, ok := fastHead(pad, at)
	if !ok {
		return 0, false
	}
	first := p.count
	i, count, same, ok := p.fastFields(headEnd + 1)
	if !ok || i >= p.end || count == first {
		return 0, false
	}
	timeMs := p.noTimeMs
	if pad[i] == ' ' {
		if timeMs, i, ok = p.fastTime(i + 1); !ok {
			return 0, false
		}
	}
	if i-at > p.limits.LineBytesMax {
		return 0, false
	}
	if p.fastStrings > 0 && (p.refuseText || p.b.keys.readLine(pad[at:headEnd]).detail != "") {
		// The line will be refused when its key is built, and its strings must
		// not count as skipped then; or they are errors themselves.
		return 0, false
	}
	points := p.points[first:count]
	for j := range points {
		points[j].TimeMs = timeMs
	}
	p.count = count
	p.b.SkippedStrings += p.fastStrings
	p.addLine(Span{uint32(at), uint32(headEnd)}, Span{uint32(at), uint32(i)}, first, same)
	return i + 1, true
}

// fastTime reads the timestamp at pad[i:] and stops at the newline behind it.
// Most lines have the timestamp of the line before.
func (p *lineParser) fastTime(i int) (timeMs int64, end int, ok bool) {
	if p.stampBytes > 0 && sameText(p.pad, i, p.stamp, p.stampBytes) {
		end = i + p.stampBytes - 1
		return p.stampMs, end, end < p.end
	}
	t, digits := digits19(p.pad, i)
	end = i + digits
	if digits == 0 || end >= p.end || p.pad[end] != '\n' || t > math.MaxInt64 {
		return 0, 0, false
	}
	if timeMs, ok = p.precision.timeMs(int64(t)); ok {
		p.stamp, p.stampBytes, p.stampMs = i, digits+1, timeMs
	}
	return timeMs, end, ok
}

// fastHead finds the space behind the head at pad[at:].
func fastHead(pad []byte, at int) (end int, ok bool) {
	for i := at; i+8 <= len(pad); {
		n := first(below(load64(pad, i), ' '+1))
		if i += n; n == 8 {
			continue
		}
		if pad[i] != ' ' || i == at || pad[at] == '#' {
			return 0, false
		}
		if pad[i-1] != '\\' {
			return i, true
		}
		// An escaped space is part of the head. Behind two backslashes it is
		// so for the head, but not for the line's end.
		if i-1 == at || pad[i-2] == '\\' {
			return 0, false
		}
		i++
	}
	return 0, false
}

// fastFields parses name=value pairs into the points behind p.count, whose new
// count it returns, and stops at the space or newline behind them. Same says that
// the names are those of the line before.
func (p *lineParser) fastFields(i int) (end, count int, same, ok bool) {
	pad, points := p.pad, p.points
	n := p.count
	guess, guessEnd := p.guess, p.guess+p.guessCount
	strings := 0
	same = true
	for {
		if n == len(points) {
			p.growPoints()
			points = p.points
		}
		point := &points[n]
		point.Field = uint32(i)
		// The = behind the name is compared with it.
		guessed := same && guess < guessEnd && sameText(pad, i, int(points[guess].Field), int(points[guess].FieldLen)+1)
		if guessed {
			point.FieldLen, point.FieldEscaped = points[guess].FieldLen, points[guess].FieldEscaped
			guess++
		} else {
			length, found := fastName(pad, i)
			if !found {
				return 0, 0, false, false
			}
			point.FieldLen, point.FieldEscaped = uint16(length), false
		}
		i += int(point.FieldLen) + 1
		if i >= len(pad) {
			return 0, 0, false, false
		}
		sign := signBytes(pad[i])
		mantissa, scale, stop, read := decimal(pad, i+sign)
		if read {
			if stop >= len(pad) || mantissa < uint64(sign) { // −0 is no decimal
				return 0, 0, false, false
			}
			point.Mantissa, point.Scale = signed(mantissa, sign), scale
			if pad[stop] == 'i' && scale == 0 {
				stop++
			}
			n++
			same = guessed
		} else if value, after := fastWord(pad, i); after > 0 {
			point.Mantissa, point.Scale = value, 0
			stop = after
			n++
			same = guessed
		} else if stop = fastString(pad, i); stop > 0 && !guessed {
			strings++ // no point, so the names of the points are as before
		} else {
			return 0, 0, false, false
		}
		if stop >= len(pad) {
			return 0, 0, false, false
		}
		if c := pad[stop]; c != ',' {
			p.fastStrings = strings
			return stop, n, same && guess == guessEnd, c == ' ' || c == '\n'
		}
		i = stop + 1
	}
}

// fastWord reads t, f, true or false at pad[i:], of which the caller checks what
// follows. End is 0 for anything else.
func fastWord(pad []byte, i int) (value int64, end int) {
	if i+8 > len(pad) {
		return 0, 0
	}
	const wordTrue, wordFals = 't' | 'r'<<8 | 'u'<<16 | 'e'<<24, 'f' | 'a'<<8 | 'l'<<16 | 's'<<24
	switch word := uint32(load64(pad, i)); {
	case word == wordTrue:
		return 1, i + 4
	case word == wordFals && pad[i+4] == 'e':
		return 0, i + 5
	case byte(word) == 't':
		return 1, i + 1
	case byte(word) == 'f':
		return 0, i + 1
	}
	return 0, 0
}

// fastString finds the end of the string at pad[i:], behind its closing quote.
// It is 0 for anything else, and for strings with backslashes or control
// characters.
func fastString(pad []byte, i int) (end int) {
	if pad[i] != '"' {
		return 0
	}
	for at := i + 1; at+8 <= len(pad); at += 8 {
		x := load64(pad, at)
		if n := first(equal(x, '"') | equal(x, '\\') | below(x, ' ')); n < 8 {
			if pad[at+n] == '"' {
				return at + n + 1
			}
			return 0
		}
	}
	return 0
}

// fastName returns the length of the plain name at pad[i:], up to the =. Names with
// characters below '-', or a backslash, are left to the general path.
func fastName(pad []byte, i int) (length int, ok bool) {
	for at := i; at+8 <= len(pad); at += 8 {
		x := load64(pad, at)
		if n := first(equal(x, '=') | below(x, '-') | equal(x, '\\')); n < 8 {
			length = at + n - i
			return length, pad[at+n] == '=' && length > 0 && length <= math.MaxUint16
		}
	}
	return 0, false
}
