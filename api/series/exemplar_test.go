package series

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func exemplarKey(metric string) Key {
	return AppendKey(nil, nil, []byte(metric), []Tag{{Name: []byte("host"), Value: []byte("a")}})
}

func TestExemplarLabels(t *testing.T) {
	long := strings.Repeat("ä", ExemplarRunesMax-1)
	for _, c := range []struct {
		labels []ExemplarLabel
		ok     bool
	}{
		{nil, true},
		{[]ExemplarLabel{{"a", "x"}, {"b", "x"}}, true},
		{[]ExemplarLabel{{"a", long}}, true},
		{[]ExemplarLabel{{"a", long + "x"}}, false},
		{[]ExemplarLabel{{"", "a"}}, false},
		{[]ExemplarLabel{{"a", ""}}, false},
		{[]ExemplarLabel{{"b", "x"}, {"a", "x"}}, false},
		{[]ExemplarLabel{{"a", "x"}, {"a", "y"}}, false},
		{[]ExemplarLabel{{"a", "\xff"}}, false},
	} {
		e := Exemplar{Key: exemplarKey("m"), TimeMs: -5, Value: math.Inf(-1), Labels: c.labels}
		if err := e.Check(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrExemplar) {
			t.Errorf("%q: %v", c.labels, err)
		}
		read, rest, err := ReadExemplar(append(AppendExemplar(nil, &e), 7))
		if (err == nil) != c.ok || c.ok && (!reflect.DeepEqual(read, e) || !bytes.Equal(rest, []byte{7})) {
			t.Errorf("%q became %v and %v: %v", c.labels, read, rest, err)
		}
	}
}

func FuzzReadExemplars(f *testing.F) {
	b := AppendExemplar(nil, &Exemplar{Key: exemplarKey("a"), TimeMs: 3, Value: 1.5, Labels: []ExemplarLabel{{"span_id", "1"}, {"trace_id", "ü"}}})
	b = AppendExemplar(b, &Exemplar{Key: exemplarKey("b"), TimeMs: math.MinInt64, Value: math.NaN()})
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := ReadExemplars(b)
		if err != nil {
			if !errors.Is(err, ErrExemplar) {
				t.Fatal(err)
			}
			return
		}
		var again []byte
		for i := range all {
			if err := all[i].Check(); err != nil {
				t.Fatal(err)
			}
			again = AppendExemplar(again, &all[i])
		}
		twice, err := ReadExemplars(again)
		if err != nil || len(twice) != len(all) || len(again) > len(b) {
			t.Fatalf("%x became %x: %v", b, again, err)
		}
		for i := range all {
			if !bytes.Equal(all[i].Key, twice[i].Key) || all[i].Compare(&twice[i]) != 0 {
				t.Fatalf("%v became %v", all[i], twice[i])
			}
		}
	})
}
