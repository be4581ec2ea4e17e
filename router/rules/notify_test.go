package rules

import (
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
		if err := targetOf(t, at.URL, nil).send(t.Context(), []postedAlert{{}}); err == nil || !strings.Contains(err.Error(), http.StatusText(status)) {
			t.Errorf("%d: %v", status, err)
		}
		at.Close()
		other.Close()
	}
}

// Neither a password nor a name, which may be a token, is told of an Alertmanager that cannot be reached.
func TestNoCredentialsInErrors(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, user := range []*url.Userinfo{url.User("a-token"), url.UserPassword("a-name", "a-password")} {
		err := targetOf(t, gone.URL, user).send(t.Context(), []postedAlert{{}})
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("nobody listens: %v", err)
		} else if strings.Contains(err.Error(), "a-") {
			t.Errorf("told: %v", err)
		}
	}
}

// targetOf returns the only target of a service that sends to a URL.
func targetOf(t *testing.T, at string, user *url.Userinfo) *target {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = user
	return newSender(&Options{ExternalURL: &url.URL{}, Alertmanagers: []*url.URL{u}, Logger: discarded()}).targets[0]
}
