package settings

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestLogger(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for i, level := range []string{"debug", "info", "warn", "error"} {
			var out bytes.Buffer
			l := newLogger(&out, format, level)
			l.Debug("m", "k", 1)
			l.Info("m", "k", 1)
			l.Warn("m", "k", 1)
			l.Error("m", "k", 1)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != 4-i {
				t.Errorf("%s, %s: %q", format, level, lines)
			}
			for _, line := range lines {
				if json.Valid([]byte(line)) != (format == "json") || format == "text" && !strings.Contains(line, "msg=m k=1") {
					t.Errorf("%s: %s", format, line)
				}
			}
		}
	}
}
