package indent

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What is written, in whatever pieces, is what encoding/json would make of it.
func TestWriter(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `null`, `{"a":[1,2,{"b":"x,{}[]:\\\"\n"}],"c":{},"d":[[],[1]]}`, `[{"k":"\\"},"é",-1.5e3]`,
	} {
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(text), "", "    "); err != nil {
			t.Fatal(err)
		}
		for size := 1; size <= len(text); size++ {
			var got bytes.Buffer
			w := New(&got, "    ")
			for from := 0; from < len(text); from += size {
				if n, err := w.Write([]byte(text[from:min(from+size, len(text))])); err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			if got.String() != want.String() {
				t.Fatalf("%s in pieces of %d:\n%s", text, size, got.String())
			}
		}
	}
}
