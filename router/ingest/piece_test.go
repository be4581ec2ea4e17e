package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// longBody is a body of lines of which each would be much as new series: a field's
// key has the line's long tag.
func longBody(lines, fields int) (body string, stored []string) {
	var b strings.Builder
	long := strings.Repeat("x", 15_000)
	for i := range lines {
		fmt.Fprintf(&b, "m%d,t=%s value=0", i, long)
		stored = append(stored, fmt.Sprintf("m%d{t=%s} 1700000000000 0", i, long))
		for f := 1; f < fields; f++ {
			fmt.Fprintf(&b, ",f%d=%d", f, f)
			stored = append(stored, fmt.Sprintf("m%d{_field=f%d,t=%s} 1700000000000 %d", i, f, long, f))
		}
		b.WriteString(" 1700000000\n")
	}
	slices.Sort(stored)
	return b.String(), stored
}

// A body that would become too much at once is written in pieces.
func TestPieces(t *testing.T) {
	body, stored := longBody(4, 300)
	r := start(t, nil)
	response, text := r.post(t, request("/write?precision=s", body+"bad\nm,=1 a=1\n"))
	if response.StatusCode != 400 || !strings.Contains(text, "partial write") || !strings.Contains(text, "dropped=2") {
		t.Errorf("%d %.300s", response.StatusCode, text)
	}
	if r.writes != 4 {
		t.Errorf("%d writes, want 4", r.writes)
	}
	if got := r.stored(); !slices.Equal(got, stored) {
		t.Errorf("%d points stored, want %d", len(got), len(stored))
	}
}

// An error ends a write; what was accepted before it and what was not add up, and
// the same request again does no harm.
func TestPiecesUntilAnError(t *testing.T) {
	body, stored := longBody(4, 300)
	r := start(t, nil)
	writes := 0
	r.beforeWrites(func(context.Context) error {
		if writes++; writes == 3 {
			return series.ErrUnavailable
		}
		return nil
	})
	if response, text := r.post(t, request("/write?precision=s", "bad\n"+body)); response.StatusCode != 503 || strings.Contains(text, "partial write") {
		t.Errorf("%d %.300s", response.StatusCode, text)
	}
	for outcome, want := range map[string]float64{"accepted": 600, "failed": 600, "refused": 1} {
		if got := r.metric(t, "tickmesh_ingest_points_total", "outcome="+outcome); got != want {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
	}
	if response, text := r.post(t, request("/write?precision=s", body)); response.StatusCode != 204 {
		t.Errorf("%d %.300s", response.StatusCode, text)
	}
	if got := r.stored(); !slices.Equal(got, stored) {
		t.Errorf("%d points stored, want %d", len(got), len(stored))
	}
}

// Pieces are all lines in their order, and no piece of several lines is too much.
func TestPieceLines(t *testing.T) {
	var b parse.Batch
	for _, body := range []string{
		strings.Repeat("m,t=x a=1\n", 2*piecePointsMax+5),
		strings.Repeat("m,t="+strings.Repeat("x", 10_000)+" "+strings.Repeat("a=1,", 1000)+"b=1\n", 20),
		strings.Repeat("m a=1\n", 10),
		"m,t=" + strings.Repeat("x", 1000) + " " + strings.Repeat("a=1,", 500) + "b=1\n" + strings.Repeat("m a=1\nm b=\"x\"\n", 2000),
	} {
		if _, err := parse.Lines(&b, []byte(body), parse.LineOptions{}); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for rest := b.Lines; len(rest) > 0; {
			n, bytes := pieceLines(&b, rest)
			if n < 1 || n > len(rest) {
				t.Fatalf("a piece of %d lines of %d", n, len(rest))
			}
			points, keyBytes := 0, 0
			for i := range rest[:n] {
				points += int(rest[i].Count)
				keyBytes += int(rest[i].Count) * rest[i].Head.Len()
			}
			if need := piecePointBytes*points + pieceKeyMultiple*keyBytes - pieceBytesFree; bytes < need {
				t.Fatalf("%d lines need %d bytes, %d are paid for", n, need, bytes)
			}
			if bound := keyBytesMax(&b, rest[:n]); bound < keyBytes {
				t.Fatalf("%d lines have %d bytes of keys, more than the bound of %d", n, keyBytes, bound)
			}
			if points != pointsOf(rest[:n]) || n > 1 && (points > piecePointsMax || keyBytes > pieceKeyBytesMax) {
				t.Fatalf("%d lines: %d points, %d bytes of keys", n, points, keyBytes)
			}
			lines, rest = lines+n, rest[n:]
		}
		if lines != len(b.Lines) {
			t.Errorf("%d lines in pieces, %d in the body", lines, len(b.Lines))
		}
	}
}

// Ids of another era: the piece is split and written once more, and a bad line
// counts once.
func TestPieceOfAnotherEra(t *testing.T) {
	for _, again := range []int{1, 2} {
		r := start(t, nil)
		writes := 0
		r.beforeWrites(func(context.Context) error {
			if writes++; writes <= again {
				return series.ErrEra
			}
			return nil
		})
		response, text := r.post(t, request("/write?precision=s", "m,t=a v=1 1700000000\nbad\n"))
		if again == 1 && (response.StatusCode != 400 || !strings.Contains(text, "dropped=1") || len(r.stored()) != 1) {
			t.Errorf("one era: %d %s, %d points stored", response.StatusCode, text, len(r.stored()))
		}
		if again == 2 && (response.StatusCode != 503 || len(r.stored()) != 0 || writes != 2) {
			t.Errorf("two eras: %d %s after %d writes", response.StatusCode, text, writes)
		}
	}
}
