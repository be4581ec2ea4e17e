package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
)

// versionFile is the source that names the version, and versionLine where it does.
const versionFile = "api/process/version.go"

var versionLine = regexp.MustCompile(`(?m)^const Version = "([^"]+)"$`)

// errVersion reports that a version cannot be read or written.
var errVersion = errors.New(versionFile + " names no Version")

// versionPattern is what a version may be, so that it stays one constant.
var versionPattern = regexp.MustCompile(`^[0-9A-Za-z.+-]+$`)

// as returns a source whose programs say another version: the compiler is shown another
// version.go, which is written to a folder. It is for tests of upgrades.
func (s source) as(version, folder string) (source, error) {
	if !versionPattern.MatchString(version) {
		return s, fmt.Errorf("%q is no version", version)
	}
	original := filepath.Join(s.root, versionFile)
	text, err := os.ReadFile(original)
	if err != nil {
		return s, err
	}
	if !versionLine.Match(text) {
		return s, errVersion
	}
	changed := versionLine.ReplaceAllLiteral(text, fmt.Appendf(nil, "const Version = %q", version))
	s.version = version
	return s.show(original, changed, folder)
}

// show returns a source of which the compiler sees another text in the place of a file.
func (s source) show(original string, text []byte, folder string) (source, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return s, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return s, err
	}
	shown := filepath.Join(folder, filepath.Base(original)+".txt")
	if err := os.WriteFile(shown, text, 0o644); err != nil {
		return s, err
	}
	s.shown = maps.Clone(s.shown)
	if s.shown == nil {
		s.shown = map[string]string{}
	}
	s.shown[original] = shown
	overlay, err := json.Marshal(map[string]any{"Replace": s.shown})
	if err != nil {
		return s, err
	}
	s.overlay = filepath.Join(folder, "overlay.json")
	return s, os.WriteFile(s.overlay, overlay, 0o644)
}
