package influxql

import (
	"encoding/json"
	"math"
	"testing"
)

// FuzzParams: bound parameters are refused, or have numbers as Go has them, none of which is
// beyond all numbers.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":1.5,"c":"x","d":true,"e":{"duration":"1h"},"f":{"regex":".*"},"g":null}`, `{"a":1e400}`, `{"a":9223372036854775808}`, `{"a":1e2}`, `{"a":-0.0}`, `{`, `[]`, `null`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		params, err := parseParams(text)
		if err != nil {
			return
		}
		for name, value := range params {
			switch v := value.(type) {
			case json.Number:
				t.Fatalf("%q: %s is still a text", text, name)
			case float64:
				if math.IsInf(v, 0) || math.IsNaN(v) {
					t.Fatalf("%q: %s is %v", text, name, v)
				}
			}
		}
	})
}
