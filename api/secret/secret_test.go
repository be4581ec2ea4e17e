package secret

import (
	"regexp"
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
	form := regexp.MustCompile(`^tickmesh_id_[A-Za-z0-9_-]{43}$`)
	seen := map[string]bool{}
	for range 1000 {
		s := New("id_")
		if !form.MatchString(s) || seen[s] || len(s) != len(Prefix+"id_")+RandomDigits {
			t.Fatalf("drawn: %q", s)
		}
		seen[s] = true
	}
}

// TestDigest compares with sha256sum(1): files of users have what other programs make.
func TestDigest(t *testing.T) {
	const text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	d := DigestOf("abc")
	other := DigestOf("abd")
	if d.String() != text || !d.Equals(&d) || d.Equals(&other) {
		t.Errorf("the digest of abc: %s", d)
	}
	if read, ok := ParseDigest(text); !ok || read != d {
		t.Errorf("read: %s %v", read, ok)
	}
	if read, ok := ParseDigest(strings.ToUpper(text)); !ok || read != d {
		t.Errorf("large letters: %s %v", read, ok)
	}
	for _, wrong := range []string{"", text[2:], text + "00", "x" + text[1:], strings.Repeat(" ", DigestDigits)} {
		if _, ok := ParseDigest(wrong); ok {
			t.Errorf("%q is taken for a digest", wrong)
		}
	}
}
