package settings

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestMissingCertificateNamesItsFlag: files of other certificates may be missing as well.
func TestMissingCertificateNamesItsFlag(t *testing.T) {
	var s PublicTLS
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Define(f)
	if err := f.Parse([]string{"--tls-cert=none.crt", "--tls-key=none.key"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Server(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--tls-cert") || !strings.Contains(err.Error(), "none.crt") {
		t.Error(err)
	}
}
