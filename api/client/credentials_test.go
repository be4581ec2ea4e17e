package client

import (
	"errors"
	"testing"
)

func TestCallerOptions(t *testing.T) {
	for what, o := range map[string]Options{
		"two ways":             {Token: "x", User: "y"},
		"a source and a token": {Token: "x", TokenSource: func() (string, error) { return "", nil }},
		"a password alone":     {Password: "x"},
		"spaces":               {Token: "a b"},
		"a line end":           {Token: "a\n"},
		"a colon":              {User: "a:b"},
	} {
		o.Endpoints = []string{"127.0.0.1:1"}
		if c, err := New(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v, %v", what, c, err)
		}
	}
}

func TestCallerCredentials(t *testing.T) {
	failed := errors.New("no file")
	for want, o := range map[string]Options{
		"Bearer x": {Token: "x"}, "Basic YW5uOmE6Yg==": {User: "ann", Password: "a:b"},
		"Bearer y":  {TokenSource: func() (string, error) { return "y\n", nil }},
		"an error":  {TokenSource: func() (string, error) { return "", failed }},
		"no option": {},
	} {
		a := o.authorization()
		if want == "no option" {
			if a != nil || o.dialOptions() != nil {
				t.Error("credentials of nobody")
			}
			continue
		}
		got, err := callerCredentials{a}.GetRequestMetadata(t.Context())
		if want == "an error" {
			if !errors.Is(err, failed) {
				t.Errorf("%v", err)
			}
			continue
		}
		if err != nil || got["authorization"] != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

// TestCredentialsNeedTLS refuses to show a token or password without TLS to another machine,
// unless told.
func TestCredentialsNeedTLS(t *testing.T) {
	for what, callers := range map[string]Options{
		"token": {Token: "x"}, "password": {User: "a", Password: "b"}, "source": {TokenSource: func() (string, error) { return "", nil }},
	} {
		for address, allowed := range map[string]bool{
			"127.0.0.1:1": true, "127.8.9.10:1": true, "[::1]:1": true, "localhost:1": true,
			"10.0.0.1:1": false, "router:1": false, "localhost.example:1": false, "[2001:db8::1]:1": false, "0.0.0.0:1": false,
		} {
			o := callers
			o.Endpoints = []string{"127.0.0.1:1", address}
			for _, told := range []bool{false, true} {
				o.InsecureCredentials = told
				c, err := New(o)
				if (err == nil) != (allowed || told) || err != nil && !errors.Is(err, ErrInsecure) {
					t.Errorf("%s to %s, told %v: %v", what, address, told, err)
				}
				if c != nil {
					_ = c.Close()
				}
			}
		}
	}
	c, err := New(Options{Endpoints: []string{"router:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
