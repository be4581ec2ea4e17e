package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesNameTests holds pages to tests that exist: each is written as the package's folder and
// the function's name.
func TestPagesNameTests(t *testing.T) {
	for page, least := range map[string]int{"SECURITY.md": 20, "charts/tickmesh/OPERATING.md": 15} {
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`([a-z0-9/.]+) ((?:Test|Fuzz)[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(text), -1)
		if len(named) < least {
			t.Fatalf("%s names %d tests", page, len(named))
		}
		for _, m := range named {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("%s: there is no %s in %s", page, m[2], m[1])
			}
		}
	}
}

// hasTest reports whether a folder has a test of that name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}
