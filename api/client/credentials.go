package client

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/loopback"
)

// callerCredentials show the server who calls, with each call. They implement gRPC's
// credentials.PerRPCCredentials.
type callerCredentials struct{ authorization func() (string, error) }

// GetRequestMetadata returns what goes with a call.
func (c callerCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	value, err := c.authorization()
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": value}, nil
}

// RequireTransportSecurity reports that they may be sent without TLS, too: a server on the loopback
// has none.
func (callerCredentials) RequireTransportSecurity() bool { return false }

// dialOptions returns how a connection shows who calls, by the options.
func (o *Options) dialOptions() []grpc.DialOption {
	authorization := o.authorization()
	if authorization == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithPerRPCCredentials(callerCredentials{authorization})}
}

// authorization returns what says who calls, in the form of HTTP's header; nil: nothing does.
func (o *Options) authorization() func() (string, error) {
	switch {
	case o.TokenSource != nil:
		return func() (string, error) {
			token, err := o.TokenSource()
			return "Bearer " + strings.TrimSpace(token), err
		}
	case o.Token != "":
		return func() (string, error) { return "Bearer " + o.Token, nil }
	case o.User != "":
		value := "Basic " + base64.StdEncoding.EncodeToString([]byte(o.User+":"+o.Password))
		return func() (string, error) { return value, nil }
	}
	return nil
}

// checkCaller refuses options that contradict each other, or that no header can have.
func (o *Options) checkCaller() error {
	ways := 0
	for _, set := range []bool{o.TokenSource != nil, o.Token != "", o.User != ""} {
		if set {
			ways++
		}
	}
	switch {
	case ways > 1:
		return fmt.Errorf("%w: of Token, TokenSource and User there can be one", ErrOptions)
	case o.Password != "" && o.User == "":
		return fmt.Errorf("%w: a password without a user", ErrOptions)
	case strings.ContainsAny(o.Token, " \t\r\n"):
		return fmt.Errorf("%w: the token has spaces", ErrOptions)
	case strings.Contains(o.User, ":"):
		return fmt.Errorf("%w: the user's name has a colon", ErrOptions)
	case ways == 0 || o.Credentials != nil || o.InsecureCredentials:
		return nil
	}
	for _, address := range o.Endpoints {
		if !loopback.IsAddress(address) {
			return fmt.Errorf("%w: a token or password would cross the network to %s for everybody to read: use TLS, or allow it with InsecureCredentials", ErrInsecure, address)
		}
	}
	return nil
}

// ErrInsecure: a token or password would be sent without TLS beyond the loopback.
var ErrInsecure = fmt.Errorf("%w: refused", ErrOptions)
