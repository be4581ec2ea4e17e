package settings

import (
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Client are the settings of where a command finds the cluster, and as whom it calls.
type Client struct {
	Addresses []string
	TLS       bool
	Files     TLSFiles
	Timeout   Duration

	Token, TokenFile, User string
	InsecureCredentials    bool
}

// Define defines the flags.
func (s *Client) Define(f *pflag.FlagSet) {
	f.StringSliceVar(&s.Addresses, "addr", []string{"127.0.0.1:6183"}, "gRPC `addresses` of routers, or of a standalone server, with commas between")
	f.BoolVar(&s.TLS, "tls", false, "use TLS, with the system's CAs unless --tls-ca names others")
	f.StringVar(&s.Files.CA, "tls-ca", "", "`file` with the CAs of the servers' certificates")
	f.StringVar(&s.Files.Cert, "tls-cert", "", "`file` with the certificate that servers are shown")
	f.StringVar(&s.Files.Key, "tls-key", "", "`file` with its key")
	f.StringVar(&s.Token, "token", "", "`token` that says who calls; better in the environment, TICKMESH_TOKEN, or in a file, as others see a command's flags")
	f.StringVar(&s.TokenFile, "token-file", "", "`file` with the token")
	f.StringVar(&s.User, "user", "", "`name:password` that says who calls, instead of a token")
	f.BoolVar(&s.InsecureCredentials, "insecure-credentials", false, "send a token or password without TLS beyond this machine, too")
	s.Timeout = Duration(30 * time.Second)
	f.Var(&s.Timeout, "timeout", "how long to try what answers at once")
}

// Validate refuses what cannot work together.
func (s *Client) Validate(v *Validation) {
	s.Files.Validate(v, "tls")
	switch {
	case s.Token != "" && s.TokenFile != "":
		v.Refuse("token-file", s.TokenFile, "--token is set too")
	case s.User != "" && (s.Token != "" || s.TokenFile != ""):
		v.Refuse("user", "…", "a token is given too")
	case s.User != "" && !strings.Contains(s.User, ":"):
		v.Refuse("user", "…", "expected name:password")
	}
	v.NotZero("timeout", s.Timeout)
	for _, text := range s.Addresses {
		var a Address
		if err := a.Set(text); err != nil || text == "" {
			v.Refuse("addr", text, "expected host:port")
		}
	}
	if len(s.Addresses) == 0 {
		v.Refuse("addr", "", "expected host:port")
	}
}
