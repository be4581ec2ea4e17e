package v1alpha1_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// durationPattern is the pattern of the marker, as the API server sees it.
func durationPattern(t testing.TB) *regexp.Regexp {
	t.Helper()
	source, err := os.ReadFile("duration.go")
	if err != nil {
		t.Fatal(err)
	}
	marker := regexp.MustCompile("Pattern=`(.*)`").FindSubmatch(source)
	if marker == nil {
		t.Fatal("duration.go has no pattern")
	}
	return regexp.MustCompile(string(marker[1]))
}

func TestDurationParse(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[v1alpha1.Duration]time.Duration{
		"": 0, "0": 0, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond,
		"90d": 90 * day, "2w": 14 * day, "1y": 365 * day, "99y": 99 * 365 * day, "9999w": 9999 * 7 * day, "99999h": 99999 * time.Hour,
	} {
		if got, err := text.Parse(); err != nil || got != want {
			t.Errorf("%q: %v, %v; expected %v", text, got, err, want)
		}
	}
	for _, text := range []v1alpha1.Duration{"d", "0d", "-1d", "1.5d", "10000d", "100y", "-3h", "3", "soon", "1h1d", "99999999999h"} {
		if got, err := text.Parse(); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}

// What the schema lets pass can be parsed.
func TestDurationSchemaIsParsed(t *testing.T) {
	pattern := durationPattern(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(pattern.String()).Filter(func(s string) bool { return len(s) <= 24 }).Draw(t, "text")
		if d, err := v1alpha1.Duration(text).Parse(); err != nil || d < 0 {
			t.Fatalf("%q: %v, %v", text, d, err)
		}
	})
}

func FuzzDurationParse(f *testing.F) {
	for _, text := range []string{"0", "90d", "1h30m", "9999w", "99y", "99999h99999h99999h99999h", "1e3s", "\xff"} {
		f.Add(text)
	}
	pattern := durationPattern(f)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := v1alpha1.Duration(text).Parse()
		if err == nil && d < 0 || err != nil && len(text) <= 24 && pattern.MatchString(text) {
			t.Fatalf("%q: %v, %v", text, d, err)
		}
	})
}
