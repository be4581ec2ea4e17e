package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityNamesTests holds SECURITY.md to tests that exist: each is written as the
// package's folder and the function's name.
func TestSecurityNamesTests(t *testing.T) {
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/.]+) ((?:Test|Fuzz)[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 20 {
		t.Fatalf("the page names %d tests", len(named))
	}
	for _, m := range named {
		files, err := filepath.Glob(filepath.Join("../..", m[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func "+m[2]+"(")
		}
		if !found {
			t.Errorf("there is no %s in %s", m[2], m[1])
		}
	}
}
