package bench

import (
	"os"
	"testing"
	"time"
)

func TestCoreWait(t *testing.T) {
	for text, want := range map[string]time.Duration{"5 7 1\n": 7, "0 0 0": 0, "1 12345678901234 3\n": 12345678901234} {
		if got, err := parseSchedstat(text); err != nil || got != want {
			t.Errorf("%q gives %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1 2", "1 x 2", "1 2 3 4"} {
		if got, err := parseSchedstat(text); err == nil {
			t.Errorf("%q gives %d", text, got)
		}
	}
	if wait, err := coreWait(os.Getpid()); err != nil || wait < 0 {
		t.Errorf("this process has waited %s, %v", wait, err)
	}
}
