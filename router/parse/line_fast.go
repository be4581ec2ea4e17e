package parse

import "math"

// fast parses the line at pad[at:] if it is complete and of the common form:
//
//	head name=number[i],name=number[i]… [timestamp]\n
//
// with single spaces, no control characters, no quotes, and no backslashes
// behind the head. It gives the start of the next line, or ok = false and has
// changed nothing that counts.
func (p *lineParser) fast(at int) (next int, ok bool) {
	pad := p.pad
	headEnd, ok := fastHead(pad, at)
	if !ok {
		return 0, false
	}
	first := p.count
	i, count, same, ok := p.fastFields(headEnd + 1)
	if !ok || i >= p.end {
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
	points := p.points[first:count]
	for j := range points {
		points[j].TimeMs = timeMs
	}
	p.count = count
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
	for i := at; i+8 <= len(pad); i += 8 {
		if n := first(below(load64(pad, i), ' '+1)); n < 8 {
			end = i + n
			return end, pad[end] == ' ' && end > at && pad[end-1] != '\\' && pad[at] != '#'
		}
	}
	return 0, false
}

// fastFields parses name=number pairs into the points behind p.count, whose new
// count it gives, and stops at the space or newline behind them. Same says that
// the names are those of the line before.
func (p *lineParser) fastFields(i int) (end, count int, same, ok bool) {
	pad, points := p.pad, p.points
	n := p.count
	guess, guessEnd := p.guess, p.guess+p.guessCount
	same = true
	for {
		if n == len(points) {
			p.growPoints()
			points = p.points
		}
		point := &points[n]
		// The = behind the name is compared with it.
		if same && guess < guessEnd && sameText(pad, i, int(points[guess].Field), int(points[guess].FieldLen)+1) {
			point.FieldLen, point.FieldEscaped = points[guess].FieldLen, points[guess].FieldEscaped
			guess++
		} else {
			same = false
			length, found := fastName(pad, i)
			if !found {
				return 0, 0, false, false
			}
			point.FieldLen, point.FieldEscaped = uint16(length), false
		}
		point.Field = uint32(i)
		i += int(point.FieldLen) + 1
		if i >= len(pad) {
			return 0, 0, false, false
		}
		sign := signBytes(pad[i])
		mantissa, scale, stop, read := decimal(pad, i+sign)
		if !read || stop >= len(pad) || mantissa < uint64(sign) { // −0 is no decimal
			return 0, 0, false, false
		}
		point.Mantissa, point.Scale = signed(mantissa, sign), scale
		c := pad[stop]
		if c == 'i' && scale == 0 {
			if stop++; stop >= len(pad) {
				return 0, 0, false, false
			}
			c = pad[stop]
		}
		n++
		if c != ',' {
			return stop, n, same && guess == guessEnd, c == ' ' || c == '\n'
		}
		i = stop + 1
	}
}

// fastName gives the length of the plain name at pad[i:], up to the =. Names with
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
