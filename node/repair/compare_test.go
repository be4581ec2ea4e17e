package repair

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestJudgeCopies compares with rules that are written down one by one.
func TestJudgeCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		found := make([]copyDigest, rapid.IntRange(1, 3).Draw(t, "copies"))
		for i := range found {
			d := &found[i]
			d.node = string(rune('a' + i))
			d.Sum = rapid.Uint64Range(0, 1).Draw(t, "sum")
			d.Since = rapid.Uint64Range(1, 3).Draw(t, "since")
			d.Applied = d.Since + rapid.Uint64Range(0, 2).Draw(t, "length")
			if i > 0 && rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
				d.err = errOutOfReach
			}
		}
		v := judge(found)
		equal := func(a, b *copyDigest) bool { return a.err == nil && b.err == nil && a.Digest == b.Digest }
		apart := func(a, b *copyDigest) bool { // they differ, and need not stand at one entry
			return a.err == nil && b.err == nil && a.Digest != b.Digest && (a.Since > b.Applied || b.Since > a.Applied)
		}
		for _, bad := range v.bad {
			at := slices.IndexFunc(found, func(d copyDigest) bool { return d.node == bad })
			others := 0
			for i := range found {
				if i != at && found[i].err == nil && found[i].Digest != found[at].Digest {
					others++
				}
			}
			if 2*others <= len(found) {
				t.Fatalf("%s is said to be bad by %d of %d", bad, others, len(found))
			}
			if at > 0 && apart(&found[at], &found[0]) {
				t.Fatalf("%s is said to be bad, and may stand at another entry", bad)
			}
		}
		same := true
		for i := range found {
			same = same && (found[i].err != nil || equal(&found[i], &found[0]))
		}
		if same && (!v.decided || v.differ != "" || len(v.bad) > 0) {
			t.Fatalf("all that answer are equal: %+v", v)
		}
		if !same && v.decided && v.differ == "" && len(v.bad) == 0 {
			t.Fatalf("they differ, and it is said that they do not")
		}
		if v.differ != "" {
			for i := range found {
				if found[i].err != nil || apart(&found[i], &found[0]) {
					t.Fatalf("it is said that nobody knows, and %s may", found[i].node)
				}
			}
		}
	})
}
