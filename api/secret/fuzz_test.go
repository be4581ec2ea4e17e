package secret

import (
	"strings"
	"testing"
)

// FuzzParseDigest: a digest is so many hexadecimal digits and nothing else, and is written as it was read.
func FuzzParseDigest(f *testing.F) {
	for _, text := range []string{"", strings.Repeat("0", DigestDigits), strings.Repeat("aF", DigestDigits/2), strings.Repeat("g", DigestDigits), strings.Repeat("0", DigestDigits+1)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := ParseDigest(text)
		if want := len(text) == DigestDigits && strings.Trim(text, "0123456789abcdefABCDEF") == ""; ok != want {
			t.Fatalf("%q: ok is %v, want %v", text, ok, want)
		}
		if ok && d.String() != strings.ToLower(text) {
			t.Fatalf("%q is written as %s", text, d)
		}
	})
}
