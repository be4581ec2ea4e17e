package main

import (
	"encoding/json"
	"errors"
	"fmt"
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
	if folder, err = filepath.Abs(folder); err != nil {
		return s, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return s, err
	}
	shown := filepath.Join(folder, filepath.Base(versionFile)+".txt")
	changed := versionLine.ReplaceAllLiteral(text, fmt.Appendf(nil, "const Version = %q", version))
	if err := os.WriteFile(shown, changed, 0o644); err != nil {
		return s, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: shown}})
	if err != nil {
		return s, err
	}
	s.version, s.overlay = version, filepath.Join(folder, "overlay.json")
	return s, os.WriteFile(s.overlay, overlay, 0o644)
}
