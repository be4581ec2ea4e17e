package promdiff

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
	"github.com/tickmesh/tickmesh/hack/recipes"
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
	blocks, err := recipes.Blocks(string(text))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, b := range blocks {
		if b.Language != "console" {
			continue
		}
		examples, err := b.Examples()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range examples {
			ran++
			output, err := exec.CommandContext(ctx, "bash", "-c", strings.ReplaceAll(e.Command, "localhost:6182", address)).Output()
			if err != nil || !e.Matches(string(output)) {
				t.Errorf("line %d: $ %s\n got %s (%v)\nwant %s", e.Line, e.Command, output, err, e.Answer)
			}
		}
	}
	if ran < 10 {
		t.Errorf("only %d examples", ran)
	}
}
