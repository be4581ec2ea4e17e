package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// The compiler is shown the same file with another version; the file stays as it is.
func TestOtherVersion(t *testing.T) {
	root, folder := t.TempDir(), filepath.Join(t.TempDir(), "out")
	const before, after = "package process\n\nconst Version = \"1.2.3\"\n", "package process\n\nconst Version = \"1.2.4-next\"\n"
	original := filepath.Join(root, versionFile)
	if err := os.MkdirAll(filepath.Dir(original), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(original, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := source{root: root, version: "1.2.3"}.as("1.2.4-next", folder)
	if err != nil || s.version != "1.2.4-next" {
		t.Fatalf("%+v, %v", s, err)
	}
	text, err := os.ReadFile(s.overlay)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		t.Fatal(err)
	}
	for file, wanted := range map[string]string{original: before, overlay.Replace[original]: after} {
		if text, err := os.ReadFile(file); err != nil || string(text) != wanted {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	for _, version := range []string{"", "1\"", "1\nconst x = 1"} {
		if _, err := s.as(version, folder); err == nil {
			t.Errorf("%q is taken for a version", version)
		}
	}
}
