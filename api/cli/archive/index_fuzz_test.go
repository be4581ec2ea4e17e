package archive

import (
	"errors"
	"testing"
)

// An index that is taken refers to nothing that is not there.
func FuzzIndex(f *testing.F) {
	content, err := (&Index{Backup: "b", Objects: []Object{{Bytes: 1 << 20}}}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte("(\xb5/\xfd"))
	f.Fuzz(func(t *testing.T, content []byte) {
		x, err := decodeIndex(content)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		for _, u := range x.Units {
			for _, p := range u.Parts {
				if p.Object >= len(x.Objects) || p.Offset+p.Bytes > x.Objects[p.Object].Bytes {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}
