package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/settings"
)

// Settings of a source that cannot be used are refused by their names: what is secret in them is not shown.
func TestSourceSecretsAreNotShown(t *testing.T) {
	for _, args := range [][]string{
		{"--source-token", "s3cret"},
		{"--source-user", "name:s3cret"},
		{"--from", "prometheus", "localhost", "--source-token", "s3cret", "--source-token-file", "f"},
		{"--from", "prometheus", "localhost", "--source-token", "s3cret", "--source-user", "name:s3cret"},
		{"--from", "prometheus", "localhost", "--source-user", "s3cret"},
	} {
		var s sourceSettings
		cmd := &cobra.Command{}
		s.Define(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		var v settings.Validation
		s.validate(cmd, &v)
		if err := v.Err(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
