package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrAdmin reports that Envoy's admin interface did not do what it was asked for.
var ErrAdmin = errors.New("the admin interface of Envoy")

// Options configure a drain.
type Options struct {
	Address string // host:port of the admin interface
	// Listeners are the prefixes of the statistics of the listeners for clients.
	Listeners []string
	// Accept is for how long new connections are still taken, while everybody learns that
	// they go elsewhere.
	Accept time.Duration
	// Timeout bounds the whole drain. Connections that are left then are cut when Envoy ends.
	Timeout time.Duration
	// Poll is how often connections are counted; 0: PollDefault.
	Poll time.Duration
}

// PollDefault is how often connections are counted.
const PollDefault = 250 * time.Millisecond

const (
	requestTimeout = 2 * time.Second
	answerBytesMax = 1 << 20
)

// Envoy drains an Envoy, so that it can end without losing a request. From the beginning it says that it
// is not ready, and each answer asks the client to connect anew; after Accept it takes no
// new connections, and this waits until those that there are have ended, or Timeout has
// passed. It returns the number of connections that are left. Errors: ErrAdmin, and those of ctx.
func Envoy(ctx context.Context, o Options) (left int, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	if _, err := ask(ctx, client, http.MethodPost, "http://"+o.Address+"/healthcheck/fail"); err != nil {
		return 0, err
	}
	if !wait(ctx, o.Accept) {
		return o.count(client)
	}
	// Not graceful, which would be by a time of its own: that is what came before.
	if _, err := ask(ctx, client, http.MethodPost, "http://"+o.Address+"/drain_listeners"); err != nil {
		return 0, err
	}
	poll := o.Poll
	if poll == 0 {
		poll = PollDefault
	}
	for {
		left, err = o.count(client)
		if err != nil || left == 0 || !wait(ctx, poll) {
			return left, err
		}
	}
}

// wait reports whether a time has passed before the context ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// count returns the connections of clients. It is asked for after the end, too.
func (o Options) count(client *http.Client) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	text, err := ask(ctx, client, http.MethodGet, "http://"+o.Address+"/stats?filter=downstream_cx_active$")
	if err != nil {
		return 0, err
	}
	return Connections(text, o.Listeners)
}

// Connections adds up the connections of listeners in the statistics that Envoy writes as
// text. Errors: ErrAdmin, if one of the listeners is not there.
func Connections(text string, listeners []string) (int, error) {
	active := map[string]int{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSpace(line), ": ")
		listener, counts := strings.CutPrefix(name, "listener.")
		listener, is := strings.CutSuffix(listener, ".downstream_cx_active")
		if !found || !counts || !is {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%w: statistic %q", ErrAdmin, line)
		}
		active[listener] = n
	}
	sum := 0
	for _, listener := range listeners {
		n, known := active[listener]
		if !known {
			return 0, fmt.Errorf("%w: no statistic of listener %q", ErrAdmin, listener)
		}
		sum += n
	}
	return sum, nil
}

func ask(ctx context.Context, client *http.Client, method, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAdmin, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAdmin, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAdmin, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%w: %s %s: %s: %.200s", ErrAdmin, method, request.URL.Path, response.Status, text)
	}
	return string(text), nil
}
