package parse

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// Bounds of what one pickle makes.
const (
	pickleStackMax   = 1 << 15
	pickleMemoMax    = 1 << 15
	pickleObjectsMax = 1 << 16
)

// pickleKind is the kind of an object.
type pickleKind uint8

const (
	pickleNone pickleKind = iota
	pickleInteger
	pickleFloat
	pickleText  // body[at:end]
	pickleTuple // sequences[at]
	pickleList  // sequences[at]
)

type pickleValue struct {
	integer int64 // of a float, its bits
	at, end uint32
	kind    pickleKind
}

func (v pickleValue) float() float64 { return math.Float64frombits(uint64(v.integer)) }

// pickleSequence is a tuple or a list: a chain of cells, as lists grow. Cells are numbered from 1.
type pickleSequence struct{ first, last, count uint32 }

type pickleCell struct {
	value pickleValue
	next  uint32
}

// pickleMachine runs the instructions of one pickle (Python's pickletools). No instruction does more
// than to make an object or to place it, and there are no more of them than bytes.
type pickleMachine struct {
	body      []byte
	at, end   int
	stack     []pickleValue
	marks     []int // heights of the stack
	memo      map[uint32]pickleValue
	sequences []pickleSequence
	cells     []pickleCell
}

var (
	errPickleEnd    = errors.New("it ends too early")
	errPickleKind   = errors.New("it is no list")
	errPickleStack  = errors.New("an instruction has not what it takes")
	errPickleLimit  = errors.New("it has too many objects")
	errPickleNumber = errors.New("a number is malformed, or too large")
	errPickleText   = errors.New("a text has escapes, or no end")
)

// run runs until the instruction STOP and returns the object that is left.
func (m *pickleMachine) run() (pickleValue, error) {
	for {
		code, err := m.take(1)
		if err != nil {
			return pickleValue{}, err
		}
		if code[0] == '.' {
			return m.pop()
		}
		if err := m.do(code[0]); err != nil {
			return pickleValue{}, err
		}
		if len(m.stack) > pickleStackMax || len(m.marks) > pickleStackMax || len(m.memo) > pickleMemoMax || len(m.sequences)+len(m.cells) > pickleObjectsMax {
			return pickleValue{}, errPickleLimit
		}
	}
}

// do runs one instruction.
func (m *pickleMachine) do(code byte) error {
	switch code {
	case 0x80: // PROTO
		_, err := m.take(1)
		return err
	case 0x95: // FRAME
		_, err := m.take(8)
		return err
	case '(': // MARK
		m.marks = append(m.marks, len(m.stack))
		return nil
	case 'N': // NONE
		m.push(pickleValue{})
		return nil
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		m.push(pickleValue{kind: pickleInteger, integer: int64(0x89 - code)})
		return nil
	case 'K', 'M', 'J', 0x8a, 'I', 'L', 'G', 'F':
		return m.number(code)
	case 'S', 'V', 'U', 0x8c, 'T', 'X':
		return m.text(code)
	case 'p', 'q', 'r', 0x94, 'g', 'h', 'j':
		return m.remember(code)
	}
	return m.sequence(code)
}

// take returns the next n bytes.
func (m *pickleMachine) take(n int) ([]byte, error) {
	if n > m.end-m.at {
		return nil, errPickleEnd
	}
	taken := m.body[m.at : m.at+n]
	m.at += n
	return taken, nil
}

// takeLine returns the bytes up to the end of the line.
func (m *pickleMachine) takeLine() ([]byte, error) {
	for i := m.at; i < m.end; i++ {
		if m.body[i] == '\n' {
			line := m.body[m.at:i]
			m.at = i + 1
			return line, nil
		}
	}
	return nil, errPickleEnd
}

// takeNumber returns the next n bytes as a number, the low byte first.
func (m *pickleMachine) takeNumber(n int) (uint64, error) {
	taken, err := m.take(n)
	var low [8]byte
	copy(low[:], taken)
	return binary.LittleEndian.Uint64(low[:]), err
}

func (m *pickleMachine) push(v pickleValue) { m.stack = append(m.stack, v) }

// pushInteger pushes a number, unless there was an error.
func (m *pickleMachine) pushInteger(v int64, err error) error {
	if err != nil {
		return err
	}
	m.push(pickleValue{kind: pickleInteger, integer: v})
	return nil
}

// pop takes the top of the stack, above the last mark.
func (m *pickleMachine) pop() (pickleValue, error) {
	top := len(m.stack) - 1
	if top < m.floor() {
		return pickleValue{}, errPickleStack
	}
	v := m.stack[top]
	m.stack = m.stack[:top]
	return v, nil
}

// floor returns the height of the stack at the last mark.
func (m *pickleMachine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

// number runs the instructions that make numbers.
func (m *pickleMachine) number(code byte) error {
	switch code {
	case 'K': // BININT1
		return m.integer(1)
	case 'M': // BININT2
		return m.integer(2)
	case 'J': // BININT
		v, err := m.takeNumber(4)
		return m.pushInteger(int64(int32(v)), err)
	case 'G': // BINFLOAT, the high byte first
		taken, err := m.take(8)
		if err != nil {
			return err
		}
		m.push(pickleValue{kind: pickleFloat, integer: int64(binary.BigEndian.Uint64(taken))})
		return nil
	case 0x8a: // LONG1
		return m.long()
	}
	line, err := m.takeLine() // FLOAT, LONG, INT
	if err != nil {
		return err
	}
	if code == 'F' {
		v, err := strconv.ParseFloat(string(line), 64)
		if errors.Is(err, strconv.ErrSyntax) {
			return errPickleNumber
		}
		m.push(pickleValue{kind: pickleFloat, integer: int64(math.Float64bits(v))})
		return nil
	}
	if code == 'L' {
		line = bytes.TrimSuffix(line, []byte{'L'})
	}
	v, wrong := parseLong(line, line)
	if wrong.detail != "" {
		return errPickleNumber
	}
	m.push(pickleValue{kind: pickleInteger, integer: v})
	return nil
}

// integer pushes a number of n bytes without a sign.
func (m *pickleMachine) integer(n int) error {
	v, err := m.takeNumber(n)
	return m.pushInteger(int64(v), err)
}

// long pushes a number in two's complement of as many bytes as the first byte says.
func (m *pickleMachine) long() error {
	n, err := m.takeNumber(1)
	if err != nil {
		return err
	}
	if n > 8 {
		return errPickleNumber
	}
	v, err := m.takeNumber(int(n))
	unused := 64 - 8*n
	return m.pushInteger(int64(v<<unused)>>unused, err)
}

// text runs the instructions that make texts. Texts stay where they are, so those with escapes are refused.
func (m *pickleMachine) text(code byte) error {
	if code == 'S' || code == 'V' { // STRING, UNICODE
		line, err := m.takeLine()
		if err != nil {
			return err
		}
		start, end := m.at-1-len(line), m.at-1
		if code == 'S' {
			quoted := len(line) > 1 && (line[0] == '\'' || line[0] == '"') && line[len(line)-1] == line[0]
			if !quoted {
				return errPickleText
			}
			line, start, end = line[1:len(line)-1], start+1, end-1
		}
		if bytes.IndexByte(line, '\\') >= 0 || bytes.ContainsFunc(line, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return errPickleText
		}
		m.push(pickleValue{kind: pickleText, at: uint32(start), end: uint32(end)})
		return nil
	}
	width := 4 // BINSTRING, BINUNICODE
	if code == 'U' || code == 0x8c {
		width = 1 // SHORT_BINSTRING, SHORT_BINUNICODE
	}
	size, err := m.takeNumber(width)
	if err != nil {
		return err
	}
	if size > PickleBytesMax {
		return errPickleEnd
	}
	taken, err := m.take(int(size))
	if err != nil {
		return err
	}
	m.push(pickleValue{kind: pickleText, at: uint32(m.at - len(taken)), end: uint32(m.at)})
	return nil
}

// remember runs the instructions that write and read the memo.
func (m *pickleMachine) remember(code byte) error {
	var key uint64
	var err error
	switch code {
	case 'p', 'g': // PUT, GET
		var line []byte
		if line, err = m.takeLine(); err == nil {
			key, err = strconv.ParseUint(string(line), 10, 32)
		}
	case 'q', 'h': // BINPUT, BINGET
		key, err = m.takeNumber(1)
	case 'r', 'j': // LONG_BINPUT, LONG_BINGET
		key, err = m.takeNumber(4)
	default: // MEMOIZE
		key = uint64(len(m.memo))
	}
	if err != nil {
		return errPickleNumber
	}
	if code == 'g' || code == 'h' || code == 'j' {
		v, known := m.memo[uint32(key)]
		if !known {
			return errPickleStack
		}
		m.push(v)
		return nil
	}
	if len(m.stack) <= m.floor() {
		return errPickleStack
	}
	if m.memo == nil {
		m.memo = map[uint32]pickleValue{}
	}
	m.memo[uint32(key)] = m.stack[len(m.stack)-1]
	return nil
}

// sequence runs the instructions of tuples and lists.
func (m *pickleMachine) sequence(code byte) error {
	switch code {
	case ')', ']': // EMPTY_TUPLE, EMPTY_LIST
		return m.gather(sequenceKind(code == ']'), len(m.stack))
	case 0x85, 0x86, 0x87: // TUPLE1, TUPLE2, TUPLE3
		return m.gather(pickleTuple, len(m.stack)-int(code-0x84))
	case 't', 'l': // TUPLE, LIST
		mark, err := m.popMark()
		if err != nil {
			return err
		}
		return m.gather(sequenceKind(code == 'l'), mark)
	case 'a': // APPEND
		return m.appendTo(len(m.stack) - 1)
	case 'e': // APPENDS
		mark, err := m.popMark()
		if err != nil {
			return err
		}
		return m.appendTo(mark)
	}
	return fmt.Errorf("it has the instruction 0x%02x, which no list of points has", code)
}

func sequenceKind(list bool) pickleKind {
	if list {
		return pickleList
	}
	return pickleTuple
}

// popMark takes the last mark and returns the height of the stack there.
func (m *pickleMachine) popMark() (height int, err error) {
	if len(m.marks) == 0 {
		return 0, errPickleStack
	}
	height = m.floor()
	m.marks = m.marks[:len(m.marks)-1]
	return height, nil
}

// gather makes a sequence of what the stack has from a height on.
func (m *pickleMachine) gather(kind pickleKind, from int) error {
	if from < m.floor() {
		return errPickleStack
	}
	m.sequences = append(m.sequences, pickleSequence{})
	made := pickleValue{kind: kind, at: uint32(len(m.sequences) - 1)}
	m.extend(made.at, from)
	m.push(made)
	return nil
}

// appendTo appends what the stack has from a height on to the list below.
func (m *pickleMachine) appendTo(from int) error {
	if from-1 < m.floor() || m.stack[from-1].kind != pickleList {
		return errPickleStack
	}
	m.extend(m.stack[from-1].at, from)
	return nil
}

// extend moves what the stack has from a height on to the end of a sequence.
func (m *pickleMachine) extend(number uint32, from int) {
	s := &m.sequences[number]
	for _, v := range m.stack[from:] {
		m.cells = append(m.cells, pickleCell{value: v})
		if s.last != 0 {
			m.cells[s.last-1].next = uint32(len(m.cells))
		} else {
			s.first = uint32(len(m.cells))
		}
		s.last = uint32(len(m.cells))
		s.count++
	}
	m.stack = m.stack[:from]
}

// pair returns the two elements of a tuple or list.
func (m *pickleMachine) pair(v pickleValue) (a, b pickleValue, ok bool) {
	if v.kind != pickleTuple && v.kind != pickleList {
		return a, b, false
	}
	s := m.sequences[v.at]
	if s.count != 2 {
		return a, b, false
	}
	return m.cells[s.first-1].value, m.cells[s.last-1].value, true
}
