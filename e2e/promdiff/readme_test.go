package promdiff

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

// page is the dialect's README, whose examples run here.
const page = "../../router/query/promql/README.md"

// TestReadme runs the commands of the page in their order and compares the answers, in
// which … stands for any text.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds the server")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Install(t.Context(), "curl", "curl"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
	defer cancel()
	address := harnesstest.Standalone(t).HTTPAddr
	ran := 0
	command, want := "", ""
	check := func() {
		if command == "" {
			return
		}
		ran++
		output, err := exec.CommandContext(ctx, "bash", "-c", strings.ReplaceAll(command, "localhost:6182", address)).Output()
		got := strings.TrimSpace(string(output))
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*") + "$"
		if err != nil || !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("$ %s\n got %s (%v)\nwant %s", command, got, err, want)
		}
		command, want = "", ""
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```"):
			check()
			inside = strings.TrimSpace(line) == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			check()
			command = strings.TrimSpace(line[2:])
		default:
			want += line
		}
	}
	if ran < 10 {
		t.Errorf("only %d examples", ran)
	}
}
