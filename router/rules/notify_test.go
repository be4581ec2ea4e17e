package rules

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// An answer that leads elsewhere is no success: a POST that is followed comes there as a GET without alerts, or brings
// them to a host that nobody has named. What is logged of it has no credentials.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%d is followed", status) }))
		at := httptest.NewServer(http.RedirectHandler(other.URL, status))
		if err := targetOf(t, at.URL, nil, nil).send(t.Context(), []postedAlert{{}}); err == nil || !strings.Contains(err.Error(), http.StatusText(status)) {
			t.Errorf("%d: %v", status, err)
		}
		at.Close()
		other.Close()
	}
}

// Neither a password nor a name, which may be a token, is told of an Alertmanager that cannot be reached.
func TestNoCredentialsInErrors(t *testing.T) {
	for _, user := range []*url.Userinfo{url.User("a-token"), url.UserPassword("a-name", "a-password")} {
		err := targetOf(t, "http://am", user, gone{}).send(t.Context(), []postedAlert{{}})
		if !errors.Is(err, errGone) || strings.Contains(err.Error(), "a-") {
			t.Errorf("told: %v", err)
		}
	}
}

// gone is the way to an Alertmanager that is not there.
type gone struct{}

var errGone = errors.New("nobody listens")

// RoundTrip implements http.RoundTripper.
func (gone) RoundTrip(*http.Request) (*http.Response, error) { return nil, errGone }

// targetOf returns the only target of a service that sends to a URL.
func targetOf(t *testing.T, at string, user *url.Userinfo, way http.RoundTripper) *target {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = user
	return newSender(&Options{ExternalURL: &url.URL{}, Transport: way, Alertmanagers: []*url.URL{u}, Logger: discarded()}).targets[0]
}
