package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unlisted is what routes requests, or serves calls, past the tables that e2e/attack reads.
var unlisted = regexp.MustCompile(`http\.(NewServeMux|ServeMux|DefaultServeMux|HandleFunc|Handle)\b|grpc\.NewServer\(`)

// listed are the files that may: what they serve is listed by another way.
var listed = map[string]string{
	"api/endpoint/endpoint.go": "the Mux that lists what it routes",
	"router/server/grpc.go":    "e2e/process/endpoints_test.go asks this server for its services",
	"node/member/member.go":    "e2e/process/endpoints_test.go registers the same service",
}

// Every server of the product routes by tables that TestEveryEndpointIsAttacked reads.
func TestRoutesAreListed(t *testing.T) {
	for _, file := range goFiles(t) {
		first, _, _ := strings.Cut(file, "/")
		if strings.HasSuffix(file, "_test.go") || first == "e2e" || first == "hack" || strings.Contains(file, "test/") || listed[file] != "" {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(source), "\n") {
			if code, _, _ := strings.Cut(line, "//"); unlisted.MatchString(code) {
				t.Errorf("%s:%d: %s: route by endpoint.Mux, or have e2e/process/endpoints_test.go list it", file, i+1, strings.TrimSpace(line))
			}
		}
	}
}
