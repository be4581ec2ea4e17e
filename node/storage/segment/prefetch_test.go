package segment

import (
	"testing"

	"pgregory.net/rapid"
)

// A reader that passes over blocks from start to end asks for every byte it reads
// once, before it reads it and never too far ahead, but for short ends.
func TestReadAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := readAhead{bytes: rapid.Int64Range(1, 100_000).Draw(t, "bytes")}
		lengths := rapid.SliceOfN(rapid.Int64Range(1, 50_000), 1, 60).Draw(t, "lengths")
		limit := rapid.Int64Range(0, 1000).Draw(t, "start")
		at := limit
		for _, n := range lengths {
			limit += n
		}
		covered := at // asked for without a gap up to here
		for _, n := range lengths {
			read := rapid.Float64().Draw(t, "read") < 0.8
			if !read { // passed over
				at += n
				continue
			}
			offset, length := a.next(at, at+n, limit)
			if length > 0 {
				if offset < covered {
					t.Fatalf("asks for %d again, %d is asked for", offset, covered)
				}
				if offset > max(at, covered) {
					t.Fatalf("asks for %d, and the read begins at %d", offset, at)
				}
				if covered = offset + length; covered > limit || covered > max(at+n, offset+a.bytes) {
					t.Fatalf("asks up to %d, the limit is %d", covered, limit)
				}
			}
			if covered < at+n && limit-max(covered, at) > aheadLeast {
				t.Fatalf("reads up to %d, asked up to %d of %d", at+n, covered, limit)
			}
			at += n
		}
	})
}
