package parse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func pickleFile(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/pickles", name+".bin"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parsePickles(t testing.TB, body []byte) (*Batch, Rest) {
	t.Helper()
	var b Batch
	rest, err := GraphitePickle(&b, body, GraphiteOptions{NowMs: graphiteNowMs})
	if err != nil {
		t.Fatal(err)
	}
	return &b, rest
}

// What Python's pickle has written (testdata/pickles/make.py) is read as it was meant, in each of its protocols.
func TestGraphitePickleOfPython(t *testing.T) {
	for protocol := range 6 {
		t.Run(strconv.Itoa(protocol), func(t *testing.T) {
			body := pickleFile(t, fmt.Sprintf("protocol%d", protocol))
			b, rest := parsePickles(t, body)
			if rest.Consumed != len(body) {
				t.Errorf("%d of %d bytes", rest.Consumed, len(body))
			}
			a := keyOf("db", "servers.a.cpu.load", nil)
			want := []resultPoint{
				{1, a, 1700000000000, math.Float64bits(0.64)}, {2, a, 1700000060500, math.Float64bits(7)},
				{3, keyOf("db", "servers.b.net", map[string]string{"dc": "home", "rack": "7"}), 1700000000000, math.Float64bits(-12.25)},
				{4, keyOf("db", "größe.ö", nil), 1700000000000, math.Float64bits(1 << 40)},
				{5, keyOf("db", "texts", nil), 1700000000000, math.Float64bits(3.5)},
				{6, keyOf("db", "lists", nil), 1700000000000, math.Float64bits(1)},
				{7, keyOf("db", "now", nil), graphiteNowMs, math.Float64bits(1e300)},
			}
			wrong, tuple := []int{9, 10, 11, 12, 13}, 13 // what is infinite, None, a number as path, and short; the tuple of points
			if protocol == 0 {                           // without the umlauts, which it writes as escapes
				want = append(want[:3], want[4:]...)
				for i := 3; i < len(want); i++ {
					want[i].number--
				}
				wrong, tuple = []int{8, 9, 10, 11, 12}, 12
			}
			for i := range 1100 {
				want = append(want, resultPoint{tuple + 1 + i, keyOf("db", "many."+strconv.Itoa(i), nil), int64(1700000000+i) * 1000, math.Float64bits(float64(i) / 4)})
			}
			if d := difference(resultOf(b, "db", Limits{}), result{points: want, errors: wrong, strings: 1}); d != "" {
				t.Errorf("%s (errors %v)", d, messages(b))
			}
		})
	}
}

// Pickles that a program has put together by hand, as Dropwizard's does.
func TestGraphitePickleByHand(t *testing.T) {
	b, _ := parsePickles(t, pickleFile(t, "byhand"))
	want := []resultPoint{
		{1, keyOf("db", "a.b", nil), 1700000000000, math.Float64bits(1.5)},
		{2, keyOf("db", "a.c", nil), 1700000001000, math.Float64bits(2)},
	}
	if d := difference(resultOf(b, "db", Limits{}), result{points: want}); d != "" {
		t.Errorf("%s (errors %v)", d, messages(b))
	}
}

// A frame that would have something called is refused as a whole, and the next one is read.
func TestGraphitePickleCallsNothing(t *testing.T) {
	b, _ := parsePickles(t, pickleFile(t, "evil"))
	if b.ErrorsTotal != 1 || !strings.Contains(b.Errors[0].Error(), "the instruction 0x63, which no list of points has") || len(b.Lines) != 1 {
		t.Errorf("%d points, errors %v", len(b.Lines), messages(b))
	}
}

func framed(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func TestGraphitePickleBounds(t *testing.T) {
	var b Batch
	for _, head := range [][]byte{{0, 0x10, 0, 1}, {0xff, 0xff, 0xff, 0xff, 1}} {
		if _, err := GraphitePickle(&b, head, GraphiteOptions{}); !errors.Is(err, ErrPickleFrame) || !HasPickle(head) {
			t.Errorf("% x: %v", head, err)
		}
	}
	whole := framed("].")
	for n := range whole {
		if rest, err := GraphitePickle(&b, whole[:n], GraphiteOptions{}); HasPickle(whole[:n]) || err != nil || rest.Consumed != 0 {
			t.Errorf("%d bytes: %v, %+v", n, err, rest)
		}
	}
	for name, payload := range map[string]string{
		"too many objects": strings.Repeat("]", pickleStackMax+1),
		"deep":             "N" + strings.Repeat("\x85", pickleObjectsMax) + ".",
		"marks":            strings.Repeat("(", pickleStackMax+1),
		"memo":             "N" + strings.Repeat("\x94", 8) + strings.Repeat("r\xff\xff\xff\xff", 8) + ".",
	} {
		b, _ := parsePickles(t, framed(payload))
		if b.ErrorsTotal != 1 || len(b.Lines) > 0 {
			t.Errorf("%s: %d points, errors %v", name, len(b.Lines), messages(b))
		}
	}
	// One path of many points: the batch refers to it and holds no copies.
	path := strings.Repeat("p", 16_000)
	payload := "](X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(path)))) + path + "q\x00K\x01K\x02\x86q\x01\x86" + strings.Repeat("h\x00h\x01\x86", 5000) + "e."
	got, _ := parsePickles(t, framed(payload))
	if len(got.Lines) != 5001 || got.MemoryBytes() > 2<<20 {
		t.Errorf("%d points take %d bytes (%v)", len(got.Lines), got.MemoryBytes(), messages(got))
	}
}

// A slow and obvious machine: objects of Go, and a panic for whatever is wrong.

type (
	modelMark  struct{}
	modelTuple []any
	modelList  struct{ items []any }
)

type modelPickle struct {
	text  string
	stack []any
	memo  map[int]any
}

func (m *modelPickle) take(n int) string {
	taken := m.text[:n]
	m.text = m.text[n:]
	return taken
}

func (m *modelPickle) line() string {
	line, rest, ok := strings.Cut(m.text, "\n")
	if !ok {
		panic("no end")
	}
	m.text = rest
	return line
}

func (m *modelPickle) little(n int) int {
	v := 0
	for i, c := range []byte(m.take(n)) {
		v |= int(c) << (8 * i)
	}
	return v
}

func (m *modelPickle) whole(s string) int64 {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// above takes what is above the last mark, and the mark.
func (m *modelPickle) above() []any {
	for i := len(m.stack) - 1; ; i-- {
		if _, is := m.stack[i].(modelMark); is {
			taken := append([]any(nil), m.stack[i+1:]...)
			m.stack = m.stack[:i]
			return taken
		}
	}
}

func (m *modelPickle) top(n int) []any {
	taken := append([]any(nil), m.stack[len(m.stack)-n:]...)
	for _, v := range taken {
		if _, is := v.(modelMark); is {
			panic("a mark")
		}
	}
	m.stack = m.stack[:len(m.stack)-n]
	return taken
}

func (m *modelPickle) list() *modelList { return m.stack[len(m.stack)-1].(*modelList) }

func (m *modelPickle) push(v any) { m.stack = append(m.stack, v) }

func (m *modelPickle) plain(s string) string {
	for _, c := range []byte(s) {
		if c >= 0x80 || c == '\\' {
			panic("an escape")
		}
	}
	return s
}

func (m *modelPickle) run() any {
	for {
		switch code := m.take(1)[0]; code {
		case '.':
			return m.top(1)[0]
		case 0x80:
			m.take(1)
		case 0x95:
			m.take(8)
		case '(':
			m.push(modelMark{})
		case 'N':
			m.push(nil)
		case 0x88:
			m.push(int64(1))
		case 0x89:
			m.push(int64(0))
		case 'K':
			m.push(int64(m.little(1)))
		case 'M':
			m.push(int64(m.little(2)))
		case 'J':
			m.push(int64(int32(m.little(4))))
		case 0x8a:
			n := m.little(1)
			v := int64(0)
			for i, c := range []byte(m.take(n)) {
				v |= int64(c) << (8 * i)
				if i == n-1 && n < 8 && c >= 0x80 {
					v -= 1 << (8 * n)
				}
			}
			if n > 8 {
				panic("long")
			}
			m.push(v)
		case 'I':
			m.push(m.whole(m.line()))
		case 'L':
			m.push(m.whole(strings.TrimSuffix(m.line(), "L")))
		case 'F':
			v, err := strconv.ParseFloat(m.line(), 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				panic(err)
			}
			m.push(v)
		case 'G':
			m.push(math.Float64frombits(binary.BigEndian.Uint64([]byte(m.take(8)))))
		case 'S':
			s := m.line()
			if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
				panic("quotes")
			}
			m.push(m.plain(s[1 : len(s)-1]))
		case 'V':
			m.push(m.plain(m.line()))
		case 'U', 0x8c:
			m.push(m.take(m.little(1)))
		case 'T', 'X':
			m.push(m.take(m.little(4)))
		case ')':
			m.push(modelTuple{})
		case ']':
			m.push(&modelList{})
		case 0x85, 0x86, 0x87:
			m.push(modelTuple(m.top(int(code) - 0x84)))
		case 't':
			m.push(modelTuple(m.above()))
		case 'l':
			m.push(&modelList{m.above()})
		case 'a':
			v := m.top(1)
			m.list().items = append(m.list().items, v...)
		case 'e':
			v := m.above()
			m.list().items = append(m.list().items, v...)
		default:
			m.remember(code)
		}
	}
}

func (m *modelPickle) remember(code byte) {
	key := 0
	switch code {
	case 'p', 'g':
		v, err := strconv.ParseUint(m.line(), 10, 32)
		if err != nil {
			panic(err)
		}
		key = int(v)
	case 'q', 'h':
		key = m.little(1)
	case 'r', 'j':
		key = m.little(4)
	case 0x94:
		key = len(m.memo)
	default:
		panic("another instruction")
	}
	if code == 'g' || code == 'h' || code == 'j' {
		v, known := m.memo[key]
		if !known {
			panic("not known")
		}
		m.push(v)
		return
	}
	v := m.top(1)[0]
	m.push(v)
	m.memo[key] = v
}

func modelPair(v any) (a, b any, ok bool) {
	if list, is := v.(*modelList); is {
		v = modelTuple(list.items)
	}
	if tuple, is := v.(modelTuple); is && len(tuple) == 2 {
		return tuple[0], tuple[1], true
	}
	return nil, nil, false
}

// modelPoints reads one frame as plaintext, whose reference is checked elsewhere.
func modelPoints(payload string) (r result) {
	defer func() {
		if recover() != nil {
			r = result{errors: []int{1}}
		}
	}()
	m := &modelPickle{text: payload, memo: map[int]any{}}
	for i, item := range m.run().(*modelList).items {
		line := []string{}
		path, sample, ok := modelPair(item)
		name, isText := path.(string)
		time, value, pairs := modelPair(sample)
		if ok && isText && pairs {
			line = append(line, name, modelWord(value, false), modelWord(time, true))
		}
		if len(line) == 3 && (line[1] == "NaN" || strings.EqualFold(strings.TrimLeft(line[1], "+-"), "nan") && len(line[1]) <= 4) {
			r.strings++
			continue
		}
		if p, ok := refGraphitePoint(line); ok {
			p.number = i + 1
			r.points = append(r.points, p)
		} else {
			r.errors = append(r.errors, i+1)
		}
	}
	return r
}

// modelWord words a number as plaintext has it.
func modelWord(v any, time bool) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if time && v > -2 && v < 1e11 && v != -1 {
			return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', 3, 64)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

func FuzzGraphitePickle(f *testing.F) {
	for _, name := range []string{"protocol0", "protocol1", "protocol2", "protocol4", "byhand", "evil"} {
		body := pickleFile(f, name)
		f.Add(string(body[4 : 4+binary.BigEndian.Uint32(body)]))
	}
	f.Add("](X\x01\x00\x00\x00aq\x00K\x01K\x02\x86q\x01\x86h\x00h\x01\x86e.")
	f.Add("(lp0\n(S'a'\nF1.5\nI01\nttag0\n.")
	f.Fuzz(func(t *testing.T, payload string) {
		if len(payload) > 1<<12 {
			return // within all bounds
		}
		b, rest := parsePickles(t, framed(payload))
		if rest.Consumed != len(payload)+4 {
			t.Fatalf("%d bytes consumed", rest.Consumed)
		}
		if d := difference(resultOf(b, "db", Limits{}), modelPoints(payload)); d != "" {
			t.Fatalf("%q: %s (errors %v)", payload, d, messages(b))
		}
	})
}
