package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/transport"
)

// connect makes a client. Nothing is asked yet.
func (s *clientCommand) connect() (*client.Client, error) {
	o := client.Options{Endpoints: s.Addresses, Name: "tickmesh " + process.Version, CallTimeout: time.Duration(s.Timeout)}
	o.Token, o.InsecureCredentials = s.Token, s.InsecureCredentials
	o.User, o.Password, _ = strings.Cut(s.User, ":")
	if s.TokenFile != "" {
		text, err := os.ReadFile(s.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		o.Token = strings.TrimSpace(string(text))
	}
	if s.TLS || s.Files.IsSet() {
		t, err := transport.NewTLS(transport.Files{Cert: s.Files.Cert, Key: s.Files.Key, CA: s.Files.CA}, slog.New(slog.DiscardHandler), time.Now)
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
	settings.Client
	check func(*settings.Validation) // of its own flags; nil: nothing
	run   func(cmd *cobra.Command, c *client.Client) error
}

// prepare makes a command read its settings, check them and connect.
func (s *clientCommand) prepare(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().SortFlags = false
	s.Define(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// Other names in the environment may be those of a server.
		if _, err := settings.Load(cmd.Flags(), os.Environ()); err != nil {
			return settings.WithHelp(cmd, err)
		}
		var v settings.Validation
		s.Validate(&v)
		if s.check != nil {
			s.check(&v)
		}
		if err := v.Err(); err != nil {
			return settings.WithHelp(cmd, err)
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

// explain adds to the error of a failed connection what people can do about it.
func (s *clientCommand) explain(err error) error {
	if err == nil {
		return nil
	}
	if found := dialFailure.FindStringSubmatch(err.Error()); found != nil {
		return &unreachedError{s.Addresses, strings.ReplaceAll(found[1], `\"`, `"`), err}
	}
	return err
}
