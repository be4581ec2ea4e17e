package main

import (
	"bytes"
	"strings"
	"testing"
)

// What cannot be run with is refused, with all that is wrong.
func TestSettings(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{"--image", "--envoy-image", "--operator-namespace"}},
		{"--image=a --envoy-image=b --operator-namespace=c --concurrency=0", []string{"--concurrency"}},
		{"--image=a --envoy-image=b --operator-namespace=c --log-format=xml --log-level=loud", []string{"--log-format", "--log-level"}},
		{"surplus", []string{"surplus"}},
	} {
		cmd := newCommand(&bytes.Buffer{})
		cmd.SetArgs(strings.Fields(c.args))
		err := cmd.ExecuteContext(t.Context())
		if err == nil {
			t.Fatalf("%s: no error", c.args)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", c.args, err, want)
			}
		}
	}
}
