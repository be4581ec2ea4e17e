package rules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promrules "github.com/prometheus/prometheus/rules"

	"github.com/tickmesh/tickmesh/api/access"
)

// Bounds of what is sent to an Alertmanager, as in Prometheus.
const (
	queueMax    = 10_000 // alerts that wait; the oldest are dropped for newer ones
	requestMax  = 256    // alerts of one request
	sendTimeout = 10 * time.Second
)

// alertPath is where an Alertmanager takes alerts, below its URL.
const alertPath = "api/v2/alerts"

// timeFormat is how the API writes times.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// postedAlert is an alert of Alertmanager's API v2 (postableAlert), in the order of fields in which Prometheus sends it.
type postedAlert struct {
	Annotations  map[string]string `json:"annotations,omitempty"`
	EndsAt       string            `json:"endsAt,omitempty"`
	StartsAt     string            `json:"startsAt,omitempty"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
	Labels       map[string]string `json:"labels"`
}

// sender sends alerts to all Alertmanagers. Those that are not taken are not sent again: the rule manager sends an
// alert anew each minute for as long as it is active, and for a quarter of an hour after.
type sender struct {
	external labels.Labels // that each alert gets, unless it has them
	link     string        // that generator URLs begin with
	targets  []*target
}

// target is one Alertmanager.
type target struct {
	name   string // its URL without credentials, for people and metrics
	url    string
	client *http.Client
	logger *slog.Logger
	work   chan struct{} // holds one while alerts wait

	mu struct {
		sync.Mutex
		waiting               []postedAlert
		sent, failed, dropped int64
	}
}

func newSender(o *Options) *sender {
	s := &sender{external: o.ExternalLabels, link: strings.TrimSuffix(o.ExternalURL.String(), "/")}
	for _, u := range o.Alertmanagers {
		at := u.JoinPath(alertPath)
		name := url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}
		t := &target{name: name.String(), url: at.String(), client: &http.Client{Transport: o.Transport, CheckRedirect: stay}, work: make(chan struct{}, 1)}
		t.logger = o.Logger.With("alertmanager", t.name)
		s.targets = append(s.targets, t)
	}
	return s
}

// stay has redirects answered as they are, which is an error: what follows one sends a GET without alerts, whose answer
// would look like success, or sends them to a host that nobody has named.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// notifier returns the promrules.NotifyFunc of a database.
func (s *sender) notifier(database string) promrules.NotifyFunc {
	return func(_ context.Context, expr string, alerts ...*promrules.Alert) {
		if len(s.targets) > 0 && len(alerts) > 0 {
			s.notify(s.linkOf(database, expr), alerts)
		}
	}
}

// linkOf returns where the page shows an expression.
func (s *sender) linkOf(database, expr string) string {
	params := url.Values{"d": {"promql"}, "q": {expr}}
	if database != "" {
		params.Set("db", access.Display(database))
	}
	return s.link + "/#/query?" + params.Encode()
}

func (s *sender) notify(link string, alerts []*promrules.Alert) {
	posted := make([]postedAlert, len(alerts))
	for i, a := range alerts {
		ends := a.ResolvedAt
		if ends.IsZero() {
			ends = a.ValidUntil
		}
		all := a.Labels.Map()
		s.external.Range(func(l labels.Label) {
			if all[l.Name] == "" {
				all[l.Name] = l.Value
			}
		})
		posted[i] = postedAlert{
			Annotations: a.Annotations.Map(), Labels: all, GeneratorURL: link,
			StartsAt: a.FiredAt.Format(timeFormat), EndsAt: ends.Format(timeFormat),
		}
	}
	for _, t := range s.targets {
		t.add(posted)
	}
}

// run sends what comes until ctx ends.
func (s *sender) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, t := range s.targets {
		running.Go(func() { t.run(ctx) })
	}
	running.Wait()
}

// add queues alerts.
func (t *target) add(alerts []postedAlert) {
	t.mu.Lock()
	t.mu.waiting = append(t.mu.waiting, alerts...)
	over := max(0, len(t.mu.waiting)-queueMax)
	t.mu.waiting = t.mu.waiting[over:]
	t.mu.dropped += int64(over)
	t.mu.Unlock()
	if over > 0 {
		t.logger.Warn("alerts are dropped: too many wait to be sent", "alerts", over)
	}
	select {
	case t.work <- struct{}{}:
	default:
	}
}

// take returns the alerts of the next request.
func (t *target) take() []postedAlert {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.mu.waiting), requestMax)
	alerts := append([]postedAlert(nil), t.mu.waiting[:n]...)
	if t.mu.waiting = t.mu.waiting[n:]; len(t.mu.waiting) == 0 {
		t.mu.waiting = nil // a burst takes its memory with it
	}
	return alerts
}

func (t *target) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.work:
		}
		for alerts := t.take(); len(alerts) > 0 && ctx.Err() == nil; alerts = t.take() {
			err := t.send(ctx, alerts)
			t.mu.Lock()
			if err == nil {
				t.mu.sent += int64(len(alerts))
			} else {
				t.mu.failed += int64(len(alerts))
				t.mu.dropped += int64(len(alerts))
			}
			t.mu.Unlock()
			if err != nil && ctx.Err() == nil {
				t.logger.Error("alerts could not be sent", "alerts", len(alerts), "error", err)
			}
		}
	}
}

// send posts alerts.
func (t *target) send(ctx context.Context, alerts []postedAlert) error {
	body, err := json.Marshal(alerts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "tickmesh")
	response, err := t.client.Do(request)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) {
			return of.Err // without the URL, whose user may be a token
		}
		return err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection is used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("it answered %s", response.Status)
	}
	return nil
}
