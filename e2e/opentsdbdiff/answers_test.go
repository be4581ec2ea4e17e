package opentsdbdiff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// answer is what a server said.
type answer struct {
	Status int    `json:"status"`
	Body   string `json:"body,omitempty"`
}

func (a *answer) String() string {
	const bytesShown = 600
	text := strings.TrimSpace(a.Body)
	if len(text) > bytesShown {
		text = text[:bytesShown] + "…"
	}
	return fmt.Sprintf("%d %s", a.Status, text)
}

// silenceMax is how long a server that has to say nothing to a line is waited for: it says the next thing after it.
const silenceMax = 10 * time.Second

// ask asks a question of the server at an address of HTTP, on which it takes lines of put, too.
func ask(address string, q *question) (answer, error) {
	if q.Kind == "line" {
		return say(address, q.Body)
	}
	request, err := http.NewRequest(q.Method, "http://"+address+q.Target, strings.NewReader(q.Body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Accept-Encoding", "identity") // OpenTSDB's packed answers have no end
	response, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(body)}, err
}

// say sends a line over a connection of its own, then asks to end it, and returns what was said.
func say(address, line string) (answer, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(silenceMax)); err != nil {
		return answer{}, err
	}
	if _, err := io.WriteString(c, line+"\nexit\n"); err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return answer{}, err
	}
	return answer{0, string(text)}, nil
}

// parse reads JSON, with numbers as they are written.
func parse(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more after the JSON")
	}
	return v, nil
}

// compare returns where the answers to a question differ; empty: they do not.
func compare(q *question, want, got *answer) string {
	if want.Status != got.Status {
		return fmt.Sprintf("status %d, not %d", got.Status, want.Status)
	}
	if q.Kind == "line" {
		return compareLine(want.Body, got.Body)
	}
	if want.Body == "" || got.Body == "" {
		if want.Body != got.Body {
			return "one of the two has no body"
		}
		return ""
	}
	a, err := parse(want.Body)
	if err != nil {
		return "opentsdb: " + err.Error()
	}
	b, err := parse(got.Body)
	if err != nil {
		return "tickmesh: " + err.Error()
	}
	if want.Status >= 400 && q.Kind != "put" {
		return compareError(a, b)
	}
	return difference("", normalize(a), normalize(b), differentNumbers)
}

// compareLine compares what was said of a line: by its first words, as what follows is for people.
func compareLine(want, got string) string {
	head := func(text string) string {
		words := strings.SplitN(strings.TrimSpace(text), ":", 3)
		return strings.Join(words[:min(2, len(words))], ":")
	}
	if head(want) != head(got) {
		return fmt.Sprintf("%q, not %q", head(got), head(want))
	}
	return ""
}

// compareError compares the form of errors; messages are for people.
func compareError(a, b any) string {
	code := func(v any) any {
		m, _ := v.(map[string]any)
		e, _ := m["error"].(map[string]any)
		if message, ok := e["message"].(string); !ok || message == "" {
			return "an error without a message"
		}
		return e["code"]
	}
	if x, y := code(a), code(b); x != y {
		return fmt.Sprintf("code %v, not %v", y, x)
	}
	return ""
}

// normalize puts what has no order into one, and leaves out what is another on every server: times and ids.
func normalize(v any) any {
	list, ok := v.([]any)
	if !ok {
		m, _ := v.(map[string]any)
		delete(m, "time")
		if results, ok := m["results"].([]any); ok {
			m["results"] = normalize(results)
		}
		if errs, ok := m["errors"].([]any); ok { // messages are for people
			for _, e := range errs {
				delete(e.(map[string]any), "error")
			}
		}
		return v
	}
	list = slices.DeleteFunc(list, func(r any) bool { return withoutPoint(r) })
	for _, r := range list {
		if m, ok := r.(map[string]any); ok {
			delete(m, "tsuid")
			if tags, ok := m["aggregateTags"].([]any); ok {
				order(tags)
			}
		}
	}
	order(list)
	return list
}

// withoutPoint reports whether a result of a query has no point. OpenTSDB answers those of series that have one in the hours
// of the range, TickMesh none.
func withoutPoint(r any) bool {
	m, _ := r.(map[string]any)
	switch points := m["dps"].(type) {
	case map[string]any:
		return len(points) == 0
	case []any:
		return len(points) == 0
	}
	return false
}

// order sorts a list by the JSON of its elements, of results by what precedes their points.
func order(list []any) {
	text := func(v any) string {
		if m, ok := v.(map[string]any); ok {
			m = maps.Clone(m)
			delete(m, "dps")
			delete(m, "value")
			v = m
		}
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // it was JSON
		}
		return string(b)
	}
	slices.SortStableFunc(list, func(a, b any) int { return cmp.Compare(text(a), text(b)) })
}

// numbers returns where a number of OpenTSDB's and what stands there of ours differ; empty: they do not.
type numbers func(path string, x json.Number, b any) string

func difference(path string, a, b any, numbers numbers) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: %v, not an object", path, b)
		}
		for _, k := range sortedKeys(x) {
			if _, ok := y[k]; !ok {
				return fmt.Sprintf("%s.%s is missing", path, k)
			}
			if d := difference(path+"."+k, x[k], y[k], numbers); d != "" {
				return d
			}
		}
		for _, k := range sortedKeys(y) {
			if _, ok := x[k]; !ok {
				return fmt.Sprintf("%s.%s is too much", path, k)
			}
		}
		return ""
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return fmt.Sprintf("%s: %d elements, not %d", path, len(y), len(x))
		}
		for i := range x {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), x[i], y[i], numbers); d != "" {
				return d
			}
		}
		return ""
	case json.Number:
		return numbers(path, x, b)
	}
	if a != b {
		return fmt.Sprintf("%s: %v, not %v", path, b, a)
	}
	return ""
}

// differentNumbers compares two numbers, and whether they are written as integers.
func differentNumbers(path string, x json.Number, b any) string {
	y, ok := b.(json.Number)
	if !ok {
		return fmt.Sprintf("%s: %v, not %s", path, b, x)
	}
	v, err := x.Float64()
	w, err2 := y.Float64()
	if err != nil || err2 != nil {
		return fmt.Sprintf("%s: %s, not %s", path, y, x)
	}
	if v != w && math.Abs(v-w) > 1e-9*max(math.Abs(v), math.Abs(w)) && math.Abs(v-w) > 1e-9 {
		return fmt.Sprintf("%s: %s, not %s", path, y, x)
	}
	if integer(x) != integer(y) {
		return fmt.Sprintf("%s: %s, not %s: one is written as an integer", path, y, x)
	}
	return ""
}

// differentIntegers is differentNumbers for integers of OpenTSDB: they may be doubles here, whose fraction it has cut off.
func differentIntegers(path string, x json.Number, b any) string {
	y, ok := b.(json.Number)
	if !ok || !integer(x) {
		return differentNumbers(path, x, b)
	}
	v, err := x.Float64()
	w, err2 := y.Float64()
	if err != nil || err2 != nil || v != math.Trunc(w) {
		return fmt.Sprintf("%s: %s, not %s", path, y, x)
	}
	return ""
}

func integer(n json.Number) bool { return !strings.ContainsAny(string(n), ".eE") }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// compact returns JSON without white space, and other text as it is.
func compact(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}
