package jsontext_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/jsontext"
)

// A JSON string reads back as encoding/json would have written it; for HTML it has nothing that HTML reads.
func FuzzAppend(f *testing.F) {
	for _, seed := range []string{"", "a\"b\\c", "\x00\x1f\x7f", "µ€😀", "\xff\xc3(", "\u2028", "\xf0\x9f\x98", "</script>&"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		oracle, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var want string
		if err := json.Unmarshal(oracle, &want); err != nil {
			t.Fatal(err)
		}
		html := jsontext.AppendHTML(nil, text)
		for _, got := range [][]byte{jsontext.Append(nil, text), jsontext.Append(nil, []byte(text)), html, jsontext.AppendHTML(nil, []byte(text))} {
			var back string
			if err := json.Unmarshal(got, &back); err != nil || back != want || !utf8.Valid(got) {
				t.Fatalf("%q became %q, %v, want %q", text, back, err, want)
			}
		}
		if bytes.ContainsAny(html, "<>&\u2028\u2029") {
			t.Fatalf("%q is not for HTML", html)
		}
	})
}
