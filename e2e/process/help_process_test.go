package process

import (
	"strings"
	"testing"
)

// TestHelpOfAProcess holds that help goes to standard output, where it can be
// searched and paged.
func TestHelpOfAProcess(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, arguments := range [][]string{{"standalone", "--help"}, {"standalone", "-h"}, {"help", "standalone"}} {
		code, stdout, stderr := run(t, nil, arguments...)
		if code != 0 || stderr != "" {
			t.Errorf("%v: code %d, %q", arguments, code, stderr)
		}
		texts = append(texts, stdout)
	}
	if texts[0] != texts[1] || texts[0] != texts[2] || !strings.Contains(texts[0], "--data-dir") {
		t.Errorf("help differs: %q", texts)
	}
}
