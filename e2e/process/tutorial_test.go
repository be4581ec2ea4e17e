package process

import (
	"os"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/harness/walkthrough"
)

// TestTutorial follows the tutorial from its beginning to its end.
func TestTutorial(t *testing.T) {
	t.Parallel()
	checkout, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	walkthrough.New(t, checkout, binary, nil).Follow("TUTORIAL.md", 15)
}
