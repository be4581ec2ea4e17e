package series

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestValidateDatabase(t *testing.T) {
	for _, name := range []string{"", "a", "default", "telegraf", "my db", "wetter-süd", "a.b", "...", "%2e", "日本", strings.Repeat("x", DatabaseBytesMax)} {
		if err := ValidateDatabase(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if err := ValidateDatabase([]byte(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{".", "..", "a/b", `a\b`, "*", "a*", "a\n", "\x00", "\x7f", "\xff", "a\u200bb", "ü/", "ü*", strings.Repeat("x", DatabaseBytesMax+1)} {
		if err := ValidateDatabase(name); !errors.Is(err, ErrDatabase) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestValidateDatabaseDoesNotAllocate(t *testing.T) {
	name := []byte("telegraf")
	if n := testing.AllocsPerRun(100, func() {
		if ValidateDatabase(name) != nil {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzValidateDatabase(f *testing.F) {
	for _, name := range []string{"", "a", "..", "a/b", "ü", "\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		want := utf8.ValidString(name) && len(name) <= DatabaseBytesMax && name != "." && name != ".." && !strings.ContainsAny(name, `/\*`) &&
			!strings.ContainsRune(name, utf8.RuneError)
		for _, r := range name {
			want = want && unicode.IsPrint(r)
		}
		if err := ValidateDatabase(name); (err == nil) != want {
			t.Fatalf("%q: %v", name, err)
		}
	})
}
