package migrate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/loopback"
)

// ErrOptions marks options that cannot work.
var ErrOptions = errors.New("cannot be migrated from")

// SourceOptions say where another database is, and as whom to ask it.
type SourceOptions struct {
	Address string // http://host:port or https://host, with a path before the API's if there is one
	// User and Password, or Token, say who asks; empty: nobody does.
	User, Password, Token string
	// InsecureCredentials lets them cross the network without TLS.
	InsecureCredentials bool
	CAFile              string // CAs of its certificate; empty: the system's
	Tenant              string // X-Scope-OrgID; empty: none

	Database, RetentionPolicy string // of InfluxDB
}

// Bounds of one request.
const (
	headerTimeout   = 5 * time.Minute // until a source, which may have to gather them, begins to answer
	stallTimeout    = 2 * time.Minute // between two pieces of an answer
	listBytesMax    = 64 << 20        // of an answer that is read as a whole
	pieceBytesMax   = 64 << 20        // of an answer's piece that is held at once
	errorBytesMax   = 1 << 10         // of an answer that is shown
	connectionsIdle = 2
)

// web asks a database over HTTP.
type web struct {
	base    *url.URL
	options SourceOptions
	client  *http.Client

	pieceBytesMax int64
}

func newWeb(o SourceOptions) (*web, error) {
	address := o.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	if strings.Contains(address, "@") { // whatever else is wrong with it, it is not shown
		return nil, fmt.Errorf("%w: give the user apart from the address: --source-user", ErrOptions)
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" {
		return nil, fmt.Errorf("%w: %q: expected http://host:port or https://host:port", ErrOptions, o.Address)
	}
	if (o.User != "" || o.Token != "") && base.Scheme == "http" && !o.InsecureCredentials && !loopback.IsHost(base.Hostname()) {
		return nil, fmt.Errorf("%w: a token or password would cross the network for everybody to read: use https, or allow it with --insecure-credentials", ErrOptions)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: headerTimeout, MaxIdleConnsPerHost: connectionsIdle, TLSHandshakeTimeout: 30 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--source-ca: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%w: --source-ca: %s holds no certificate", ErrOptions, o.CAFile)
		}
	}
	return &web{base: base, options: o, client: &http.Client{Transport: transport, CheckRedirect: stay}, pieceBytesMax: pieceBytesMax}, nil
}

// stay has redirects answered as they are, which is an error: they would bring credentials to a host that nobody has
// named, or over a connection without TLS.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// request is one question.
type request struct {
	path   string
	query  url.Values
	body   []byte // nil: GET
	header map[string]string
}

// ask sends a question and returns the answer of a success, whose body the caller closes. Errors are marked.
func (w *web) ask(parent context.Context, r request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(parent)
	target := *w.base
	target.Path = strings.TrimSuffix(target.Path, "/") + r.path
	target.RawQuery = r.query.Encode()
	method := http.MethodGet
	if r.body != nil {
		method = http.MethodPost
	}
	question, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(r.body))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	switch {
	case w.options.Token != "":
		question.Header.Set("Authorization", "Bearer "+w.options.Token)
	case w.options.User != "":
		question.SetBasicAuth(w.options.User, w.options.Password)
	}
	if w.options.Tenant != "" {
		question.Header.Set("X-Scope-OrgID", w.options.Tenant)
	}
	for name, value := range r.header {
		question.Header.Set(name, value)
	}
	answer, err := w.client.Do(question)
	if err != nil {
		cancel(nil)
		untrusted := (*tls.CertificateVerificationError)(nil)
		if parent.Err() != nil || errors.As(err, &untrusted) {
			return nil, err
		}
		return nil, temporary(err)
	}
	answer.Body = newWatched(answer.Body, cancel)
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, errorBytesMax))
	return nil, statusError(r.path, answer.StatusCode, strings.TrimSpace(string(text)))
}

// statusError marks an answer that is no success.
func statusError(path string, status int, text string) error {
	err := fmt.Errorf("%s is answered by %d: %q", path, status, text)
	switch {
	case status == http.StatusTooManyRequests: // whose text has the words of an answer that is too large
		return temporary(err)
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		return fmt.Errorf("%w: redirects are not followed: give the address that they lead to", err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return err
	case saysTooMuch(text):
		return &marked{errTooMuch, err}
	case status >= http.StatusInternalServerError:
		return temporary(err)
	}
	return err
}

// saysTooMuch reports whether an error is about the size of an answer: databases have no status for that.
func saysTooMuch(text string) bool {
	text = strings.ToLower(text)
	for _, word := range []string{"exceed", "limit", "too many", "too much", "too large", "max-"} {
		if strings.Contains(text, word) && !strings.Contains(text, "rate limit") {
			return true
		}
	}
	return false
}

// list reads an answer that is a small JSON value.
func (w *web) list(ctx context.Context, r request, into any) error {
	answer, err := w.ask(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, listBytesMax+1))
	if err != nil {
		return broken(err)
	}
	if len(text) > listBytesMax {
		return malformed("%s has more than %d bytes", r.path, listBytesMax)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return malformed("%s: %w", r.path, err)
	}
	return nil
}

// pieces is a body of which a bounded piece is held at once.
type pieces struct {
	io.Reader
	max, left int64
}

// next begins another piece.
func (p *pieces) next() { p.left = p.max }

// Read implements io.Reader.
func (p *pieces) Read(to []byte) (int, error) {
	if p.left <= 0 {
		return 0, &marked{errTooMuch, malformed("a piece of more than %d bytes", p.max)}
	}
	n, err := p.Reader.Read(to[:min(int64(len(to)), p.left)])
	p.left -= int64(n)
	return n, err
}

// broken marks an answer that ended in the middle.
func broken(err error) error { return temporary(fmt.Errorf("the answer broke off: %w", err)) }

// watched is a body that ends with an error when nothing comes for too long.
type watched struct {
	io.ReadCloser
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newWatched(body io.ReadCloser, cancel context.CancelCauseFunc) *watched {
	stalled := fmt.Errorf("nothing came for %v", stallTimeout)
	return &watched{body, time.AfterFunc(stallTimeout, func() { cancel(stalled) }), cancel}
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(stallTimeout)
	n, err := w.ReadCloser.Read(p)
	w.timer.Stop() // what is done with it may take longer
	return n, err
}

// Close implements io.Closer.
func (w *watched) Close() error {
	w.timer.Stop()
	w.cancel(nil)
	return w.ReadCloser.Close()
}
