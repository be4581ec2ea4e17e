package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/transport"
)

// clientSettings say where a command finds the cluster.
type clientSettings struct {
	addresses []string
	tls       bool
	files     tlsFiles
	timeout   span

	token, tokenFile, user string
	insecureCredentials    bool
}

func (s *clientSettings) define(f *pflag.FlagSet) {
	f.StringSliceVar(&s.addresses, "addr", []string{"127.0.0.1:6183"}, "gRPC `addresses` of routers, or of a standalone server, with commas between")
	f.BoolVar(&s.tls, "tls", false, "use TLS, with the system's authorities unless --tls-ca names others")
	f.StringVar(&s.files.ca, "tls-ca", "", "`file` with the authorities of the servers' certificates")
	f.StringVar(&s.files.cert, "tls-cert", "", "`file` with the certificate that servers are shown")
	f.StringVar(&s.files.key, "tls-key", "", "`file` with its key")
	f.StringVar(&s.token, "token", "", "`token` that says who calls; better in the environment, TICKMESH_TOKEN, or in a file, as others see a command's flags")
	f.StringVar(&s.tokenFile, "token-file", "", "`file` with the token")
	f.StringVar(&s.user, "user", "", "`name:password` that says who calls, instead of a token")
	f.BoolVar(&s.insecureCredentials, "insecure-credentials", false, "send a token or password without TLS beyond this machine, too")
	s.timeout = span(30 * time.Second)
	f.Var(&s.timeout, "timeout", "how long to try what answers at once")
}

func (s *clientSettings) validate(v *validation) {
	s.files.validate(v, "tls")
	switch {
	case s.token != "" && s.tokenFile != "":
		v.refuse("token-file", s.tokenFile, "--token is set too")
	case s.user != "" && (s.token != "" || s.tokenFile != ""):
		v.refuse("user", "…", "a token is given too")
	case s.user != "" && !strings.Contains(s.user, ":"):
		v.refuse("user", "…", "expected name:password")
	}
	v.notZero("timeout", s.timeout)
	for _, text := range s.addresses {
		var a address
		if err := a.Set(text); err != nil || text == "" {
			v.refuse("addr", text, "expected host:port")
		}
	}
	if len(s.addresses) == 0 {
		v.refuse("addr", "", "expected host:port")
	}
}

// connect makes a client. Nothing is asked yet.
func (s *clientSettings) connect() (*client.Client, error) {
	o := client.Options{Endpoints: s.addresses, Name: "tickmesh " + programVersion, CallTimeout: time.Duration(s.timeout)}
	o.Token, o.InsecureCredentials = s.token, s.insecureCredentials
	o.User, o.Password, _ = strings.Cut(s.user, ":")
	if s.tokenFile != "" {
		text, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		o.Token = strings.TrimSpace(string(text))
	}
	if s.tls || s.files.set() {
		t, err := transport.NewTLS(transport.Files{Cert: s.files.cert, Key: s.files.key, CA: s.files.ca}, slog.New(slog.DiscardHandler), time.Now)
		if err != nil {
			return nil, err
		}
		o.Credentials = t.Credentials()
	}
	c, err := client.New(o)
	if errors.Is(err, client.ErrInsecure) {
		return nil, fmt.Errorf("a token or password would cross the network for everybody to read: use --tls, or allow it with --insecure-credentials")
	}
	return c, err
}

// clientCommand is a command that asks a cluster.
type clientCommand struct {
	clientSettings
	check func(*validation) // of its own flags; nil: nothing
	run   func(cmd *cobra.Command, c *client.Client) error
}

// prepare makes a command read its settings, check them and connect.
func (s *clientCommand) prepare(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().SortFlags = false
	s.define(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// Other names in the environment may be those of a server.
		if _, err := loadSettings(cmd.Flags(), os.Environ()); err != nil {
			return withHelp(cmd, err)
		}
		var v validation
		s.validate(&v)
		if s.check != nil {
			s.check(&v)
		}
		if err := v.err(); err != nil {
			return withHelp(cmd, err)
		}
		c, err := s.connect()
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer c.Close()
		if err := c.Reach(cmd.Context()); err != nil {
			return s.explain(err)
		}
		return s.explain(s.run(cmd, c))
	}
	return cmd
}

// dialFailure is how gRPC says that it could not connect.
var dialFailure = regexp.MustCompile(`connection error: desc = "transport: (?:Error while dialing: )?(.*)"`)

// unreachedError is an error of a command that nobody has answered.
type unreachedError struct {
	addresses []string
	cause     string
	err       error
}

func (e *unreachedError) Error() string {
	return fmt.Sprintf("no server could be reached at %s: %s\nis one running there? --addr, or TICKMESH_ADDR, names others", strings.Join(e.addresses, ", "), e.cause)
}

func (e *unreachedError) Unwrap() error { return e.err }

// explain says of an error of a connection what people can do.
func (s *clientSettings) explain(err error) error {
	if err == nil {
		return nil
	}
	if found := dialFailure.FindStringSubmatch(err.Error()); found != nil {
		return &unreachedError{s.addresses, strings.ReplaceAll(found[1], `\"`, `"`), err}
	}
	return err
}

// clientCommands are the commands that ask a cluster.
func clientCommands() []*cobra.Command {
	return []*cobra.Command{
		newQueryCommand(), newImportCommand(), newExportCommand(), newStatusCommand(), newNodesCommand(), newShardsCommand(),
		newDrainCommand(), newUndrainCommand(), newRecoverCommand(), newBackupCommand(), newRestoreCommand(),
		newCheckCommand(),
	}
}
