package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/loopback"
)

// Bounds of what is fetched of an issuer.
const (
	urlBytesMax    = 512
	answerBytesMax = 256 << 10
	// fetchTimeout is for discovery and the key set together, and for the callers who wait for them.
	fetchTimeout = 5 * time.Second
)

// ValidateURL checks the URL of an issuer: https, or http of a loopback address, without query and
// fragment.
func ValidateURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(text, "?#") || len(text) > urlBytesMax:
		return errors.New("expected a URL such as https://issuer.example.com, without user, query and fragment")
	case u.Scheme == "https" || u.Scheme == "http" && loopback.IsHost(u.Hostname()):
		return nil
	}
	return errors.New("expected https (http only for an issuer on the loopback)")
}

// newHTTPClient returns a client that follows no redirect, so that what was checked of a URL holds.
func newHTTPClient() *http.Client {
	return &http.Client{
		Timeout:       fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: fetchTimeout}).DialContext,
			MaxConnsPerHost:        1,
			DisableKeepAlives:      true, // minutes lie between two fetches
			MaxResponseHeaderBytes: 16 << 10,
			ForceAttemptHTTP2:      true,
		},
	}
}

// fetchKeys reads the discovery document and the key set that it names.
func fetchKeys(ctx context.Context, client *http.Client, issuer string) (keys []key, leftOut int, err error) {
	text, err := get(ctx, client, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return nil, 0, err
	}
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return nil, 0, fmt.Errorf("its discovery document is no JSON: %w", err)
	}
	if about.Issuer != issuer {
		return nil, 0, fmt.Errorf("its discovery document is of the issuer %.100q; the auth file must name it the same way", about.Issuer)
	}
	u, err := url.Parse(about.Keys)
	own, _ := url.Parse(issuer)
	if err != nil || u.Host == "" || len(about.Keys) > urlBytesMax || u.Scheme != "https" && (u.Scheme != "http" || own.Scheme != "http" || !loopback.IsHost(u.Hostname())) {
		return nil, 0, errors.New("its jwks_uri is no https URL")
	}
	if text, err = get(ctx, client, about.Keys); err != nil {
		return nil, 0, err
	}
	keys, leftOut, err = parseKeys(text)
	if err != nil {
		return nil, 0, fmt.Errorf("its key set: %w", err)
	}
	return keys, leftOut, nil
}

// get reads one document.
func get(ctx context.Context, client *http.Client, from string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s; redirects are not followed", from, response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if len(text) > answerBytesMax {
		return nil, fmt.Errorf("%s is longer than %d bytes", from, answerBytesMax)
	}
	return text, nil
}
