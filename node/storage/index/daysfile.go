package index

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The file of the days of a month (FORMAT.md):
//
//	magic · version u32 · month u32 · days u32 · day* · crc32c u32
//
// Days is a set: bit 0 is the first day of the month. A day is the number of its chunks and
// these, each with the number of those without marks before it.
const (
	daysPrefix = "days-"
	daysMagic  = "TMDAYM\r\n"
	daysCoarse = 1 << 31 // in place of days: they are not known
)

func daysFile(m Month) string { return daysPrefix + m.String() }

// encodeDays returns the file of the days of a month. Marks set meanwhile may or may not be in it.
func encodeDays(m *monthMarks) []byte {
	days := m.days.Load()
	if days.coarse {
		return appendActivitySum(newActivityFile(daysMagic, uint32(m.month), daysCoarse))
	}
	set := uint32(0)
	days.each(func(day int, _ *periodMarks) { set |= 1 << day })
	b := newActivityFile(daysMagic, uint32(m.month), set)
	days.each(func(_ int, p *periodMarks) {
		chunks := *p.chunks.Load()
		b = binary.AppendUvarint(b, uint64(len(chunks)))
		next := uint32(0)
		for _, c := range chunks {
			b = binary.AppendUvarint(b, uint64(c.number-next))
			b = appendChunk(b, c.chunk, true)
			next = c.number + 1
		}
	})
	return appendActivitySum(b)
}

// chunkNumberMax is the greatest number of a chunk.
const chunkNumberMax = uint64(LocalNone / markBits)

// decodeDays reads the file of the days of a month; marks of series from count on are left out.
func decodeDays(b []byte, count uint32, full *marks) (Month, *monthDays, error) {
	number, set, rest, err := cutActivityHeader(b, daysMagic)
	if err != nil {
		return 0, nil, err
	}
	if number > uint32(MonthMax) {
		return 0, nil, fmt.Errorf("%w: it is of month %d", errActivityFile, number)
	}
	month := Month(number)
	within := month.Days()
	days := &monthDays{coarse: set == daysCoarse}
	if length := within.To - within.From + 1; !days.coarse && set>>length != 0 {
		return 0, nil, fmt.Errorf("%w: days %#x of %s", errActivityFile, set, month)
	}
	for left := set &^ daysCoarse; left != 0; left &= left - 1 {
		day := bits.TrailingZeros32(left)
		var chunks []placedChunk
		if chunks, rest, err = cutDay(rest, count, full); err != nil {
			return 0, nil, fmt.Errorf("%w: day %d of %s", err, day+1, month)
		}
		days.of[day] = newPeriodMarks(chunks)
	}
	if len(rest) > 0 {
		return 0, nil, fmt.Errorf("%w: %d bytes too many", errActivityFile, len(rest))
	}
	return month, days, nil
}

// cutDay cuts the marks of a day.
func cutDay(b []byte, count uint32, full *marks) (chunks []placedChunk, rest []byte, err error) {
	length, used := binary.Uvarint(b)
	if used <= 0 {
		return nil, nil, errActivityFile
	}
	b = b[used:]
	next := uint64(0)
	for range length {
		gap, used := binary.Uvarint(b)
		if used <= 0 || gap > chunkNumberMax || next+gap > chunkNumberMax {
			return nil, nil, errActivityFile
		}
		words, kind, left, ok := cutWords(b[used:], chunkNoFew)
		if !ok {
			return nil, nil, errActivityFile
		}
		b, chunks = left, appendPlaced(chunks, uint32(next+gap), words, kind, count, full)
		next += gap + 1
	}
	return chunks, b, nil
}
