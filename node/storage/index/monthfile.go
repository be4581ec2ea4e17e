package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// The file of a month, or of a day in folders of earlier programs (FORMAT.md):
//
//	magic · version u32 · month or day u32 · chunks u32 · chunk* · crc32c u32
//
// A chunk is a byte for its kind and what belongs to it. There is one for all series, in order.
// Those of months are not lists.
const (
	monthPrefix = "active-"
	monthMagic  = "TMACTV\r\n"
	dayPrefix   = "day-"
	dayMagic    = "TMDAYS\r\n"

	activityVersion = 1
	activityHeader  = 20

	chunkNone  = 0
	chunkFull  = 1
	chunkBits  = 2
	chunkFew   = 3 // u8 count, u16 of each bit that is set
	chunkNoFew = 4 // likewise of each that is not set
)

func monthFile(m Month) string { return monthPrefix + m.String() }

// monthOfFile returns the month of a file with a prefix.
func monthOfFile(name, prefix string) (Month, bool) {
	text, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	return parseMonth(text)
}

// dayOfFile returns the day of a file of an earlier program.
func dayOfFile(name string) (Day, bool) {
	text, ok := strings.CutPrefix(name, dayPrefix)
	if !ok {
		return 0, false
	}
	return parseDay(text)
}

var errActivityFile = errors.New("not an activity file")

// newActivityFile begins a file.
func newActivityFile(magic string, number, length uint32) []byte {
	b := []byte(magic)
	b = binary.LittleEndian.AppendUint32(b, activityVersion)
	b = binary.LittleEndian.AppendUint32(b, number)
	return binary.LittleEndian.AppendUint32(b, length)
}

// appendActivitySum ends a file.
func appendActivitySum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// cutActivityHeader checks a file and returns the fields of its header, and what is between that
// and the checksum.
func cutActivityHeader(b []byte, magic string) (number, length uint32, rest []byte, err error) {
	if len(b) < activityHeader+4 || string(b[:8]) != magic {
		return 0, 0, nil, fmt.Errorf("%w: %d bytes, or another magic number", errActivityFile, len(b))
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return 0, 0, nil, fmt.Errorf("%w: the checksum does not agree", errActivityFile)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != activityVersion {
		return 0, 0, nil, fmt.Errorf("%w: version %d, known is %d", ErrVersion, v, activityVersion)
	}
	return binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:]), body[activityHeader:], nil
}

// encodeMonth returns the file of a month. Marks set meanwhile may or may not be in it.
func encodeMonth(m *monthMarks) []byte {
	chunks := *m.series.chunks.Load()
	length := uint32(0)
	if len(chunks) > 0 {
		length = chunks[len(chunks)-1].number + 1
	}
	b := newActivityFile(monthMagic, uint32(m.month), length)
	next := uint32(0)
	for _, c := range chunks {
		for ; next < c.number; next++ {
			b = append(b, chunkNone)
		}
		b = appendChunk(b, c.chunk, false)
		next++
	}
	return appendActivitySum(b)
}

func appendChunk(b []byte, c chunk, listed bool) []byte {
	switch {
	case c.none():
		return append(b, chunkNone)
	case c.ones() == markBits:
		return append(b, chunkFull)
	}
	words := c.words()
	if listed {
		if few, ok := fewOf(&words); ok {
			kind := byte(chunkNoFew)
			if few.value {
				kind = chunkFew
			}
			b = append(b, kind, byte(len(few.list)))
			for _, bit := range few.list {
				b = binary.LittleEndian.AppendUint16(b, bit)
			}
			return b
		}
	}
	b = append(b, chunkBits)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// decodeMonth reads the file of a month; marks of series from count on are left out.
func decodeMonth(b []byte, count uint32, full *marks) (Month, []placedChunk, error) {
	number, chunks, err := decodeDense(b, monthMagic, chunkBits, count, full)
	if err == nil && number > uint32(MonthMax) {
		err = fmt.Errorf("%w: it is of month %d", errActivityFile, number)
	}
	return Month(number), chunks, err
}

// decodeDay is decodeMonth for the file of a day.
func decodeDay(b []byte, count uint32, full *marks) (Day, []placedChunk, error) {
	number, chunks, err := decodeDense(b, dayMagic, chunkNoFew, count, full)
	if err == nil && number > uint32(DayMax) {
		err = fmt.Errorf("%w: it is of day %d", errActivityFile, number)
	}
	return Day(number), chunks, err
}

func decodeDense(b []byte, magic string, kindMax byte, count uint32, full *marks) (number uint32, chunks []placedChunk, err error) {
	number, length, rest, err := cutActivityHeader(b, magic)
	if err != nil {
		return 0, nil, err
	}
	for n := range length {
		words, kind, left, ok := cutWords(rest, kindMax)
		if !ok {
			return 0, nil, fmt.Errorf("%w: chunk %d of %d", errActivityFile, n, length)
		}
		rest, chunks = left, appendPlaced(chunks, n, words, kind, count, full)
	}
	if len(rest) > 0 {
		return 0, nil, fmt.Errorf("%w: %d bytes too many", errActivityFile, len(rest))
	}
	return number, chunks, nil
}

// appendPlaced appends what a chunk has of the first count series, if it has any.
func appendPlaced(chunks []placedChunk, number uint32, words [markWords]uint64, kind byte, count uint32, full *marks) []placedChunk {
	first := uint64(number) * markBits
	if first >= uint64(count) {
		return chunks
	}
	if c := makeChunk(words, kind == chunkFew || kind == chunkNoFew, uint64(count)-first, full); !c.none() {
		chunks = append(chunks, placedChunk{number, c})
	}
	return chunks
}

// cutWords cuts a chunk.
func cutWords(b []byte, kindMax byte) (words [markWords]uint64, kind byte, rest []byte, ok bool) {
	if len(b) == 0 || b[0] > kindMax {
		return words, 0, nil, false
	}
	kind, b = b[0], b[1:]
	switch kind {
	case chunkFull:
		for i := range words {
			words[i] = ^uint64(0)
		}
	case chunkBits:
		if len(b) < markBits/8 {
			return words, 0, nil, false
		}
		for i := range words {
			words[i] = binary.LittleEndian.Uint64(b[i*8:])
		}
		b = b[markBits/8:]
	case chunkFew, chunkNoFew:
		if len(b) == 0 || len(b)-1 < 2*int(b[0]) {
			return words, 0, nil, false
		}
		n := int(b[0])
		for i := range n {
			bit := binary.LittleEndian.Uint16(b[1+2*i:])
			if bit >= markBits {
				return words, 0, nil, false
			}
			words[bit/64] |= 1 << (bit % 64)
		}
		if kind == chunkNoFew {
			for i := range words {
				words[i] = ^words[i]
			}
		}
		b = b[1+2*n:]
	}
	return words, kind, b, true
}
