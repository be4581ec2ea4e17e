package main

import (
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/settings"
)

// TestPageSettings loads the file of settings that the guide shows.
func TestPageSettings(t *testing.T) {
	found := false
	for _, b := range blocksOf(t, "GUIDE.md") {
		if b.language != "yaml" || !strings.Contains(b.text, "data-dir:") {
			continue
		}
		found = true
		s, flags := newFlags()
		if _, err := settings.Load(flags, []string{"TICKMESH_CONFIG=" + writeFile(t, b.text)}); err != nil {
			t.Errorf("%s:%d: %v", b.page, b.line, err)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s:%d: %v", b.page, b.line, err)
		}
	}
	if !found {
		t.Error("there is none")
	}
}
