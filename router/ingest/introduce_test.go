package ingest

import (
	"io"
	"strings"
	"testing"
)

// First lines that do not end take bounded memory over all connections, before anybody is known.
func TestUnfinishedIntroductionsAreBounded(t *testing.T) {
	authority, _ := users(t)
	r := start(t, func(o *Options) { o.Authenticator = authority })
	const long = 6000
	r.streams.waiting.bytesMax = 2 * long
	line := "auth token " + strings.Repeat("x", long-11)
	held := dial(t, r.Addresses().Put)
	send(t, held, line)
	eventually(t, "the line held", func() bool { return r.streams.waiting.used.Load() == long })
	full := dial(t, r.Addresses().Put)
	send(t, full, line+"xx")
	if out, err := io.ReadAll(full); err != nil || !strings.HasPrefix(string(out), "put: Please throttle writes: too many unfinished lines") {
		t.Errorf("%q, %v", out, err)
	}
	if out := exchangeOn(t, held, "\n"); !strings.HasPrefix(out, "AUTH_FAIL") {
		t.Errorf("%q", out)
	}
	eventually(t, "the room given back", func() bool { return r.streams.waiting.used.Load() == 0 })
}
