package influxql

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
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

// FuzzForm reads a body as a form of any kind: what is taken has the last value of a name, and what is refused says why.
func FuzzForm(f *testing.F) {
	const boundary = "multipart/form-data; boundary=b"
	f.Add(boundary, "--b\r\nContent-Disposition: form-data; name=\"q\"; filename=\"x\"\r\n\r\nselect 1\r\n--b--\r\n")
	f.Add(boundary, "--b\r\nContent-Disposition: form-data; name=q\r\n")
	f.Add("text/plain", "q=a;b&db=x%20y")
	f.Add("", "%zz")
	h := &handler{}
	h.limits.BodyBytesMax = 1 << 16
	f.Fuzz(func(t *testing.T, kind, body string) {
		r := httptest.NewRequest(http.MethodPost, "/query?db=u", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		form, err := h.readForm(httptest.NewRecorder(), r)
		if of := (*requestError)(nil); err != nil && !errors.As(err, &of) {
			t.Fatalf("an error without a kind: %v", err)
		}
		if err == nil && !form.Has("db") {
			t.Fatalf("%q has lost what the URL says", body)
		}
	})
}
