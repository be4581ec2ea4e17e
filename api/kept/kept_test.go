package kept

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func numbers() Codec[int] {
	return Codec[int]{
		Encode: func(all map[string]int) ([]byte, error) { return json.Marshal(all) },
		Decode: func(text []byte) (all map[string]int, err error) { return all, json.Unmarshal(text, &all) },
	}
}

func TestFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "NUMBERS")
	open := func() *Folder[int] {
		t.Helper()
		f, err := Open(path, numbers())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open()
	before := f.All()
	if err := f.Change(t.Context(), func(all map[string]int) error { all["a"], all["b"] = 1, 2; return nil }); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Change(ended, func(all map[string]int) error { all["c"] = 3; return nil }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	if err := f.Change(t.Context(), func(all map[string]int) error { all["c"] = 3; return refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	for _, f := range []*Folder[int]{f, open()} {
		if all := f.All(); len(before) != 0 || len(all) != 2 || all["b"] != 2 {
			t.Errorf("%v %v", before, all)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Change(t.Context(), func(all map[string]int) error { all["c"] = 3; return nil }); err == nil || f.All()["c"] != 0 || open().All()["c"] != 0 {
		t.Errorf("what cannot be written has changed: %v %v", err, f.All())
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, numbers()); err == nil {
		t.Error("a file that cannot be read is opened")
	}
}

func TestMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Mirror[int]
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			m.See(map[string]int{"other": 2})
			m.See(map[string]int{"a": 1})
		}()
		if m.Await(t.Context(), "a", 1); m.All()["a"] != 1 || time.Since(start) != time.Second {
			t.Errorf("%v after %v", m.All(), time.Since(start))
		}
		if m.Await(t.Context(), "gone", 0); time.Since(start) != time.Second {
			t.Errorf("none is not there at once: %v", time.Since(start))
		}
		if m.Await(t.Context(), "a", 2); time.Since(start) != time.Second+seenMax {
			t.Errorf("a wait without an end: %v", time.Since(start))
		}
	})
}
