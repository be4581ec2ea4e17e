package process

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestReadiness(t *testing.T) {
	var health error
	r := &Readiness{Health: func() error { return health }}
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		r.serve(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code, w.Body.String()
	}
	for _, step := range []struct {
		serving bool
		health  error
		status  int
		body    string
	}{
		{false, nil, 503, "not ready: starting or stopping\n"},
		{true, nil, 200, "ready\n"},
		{true, errors.New("the disk is full"), 503, "not ready: the disk is full\n"},
		{true, nil, 200, "ready\n"},
		{false, errors.New("the disk is full"), 503, "not ready: starting or stopping\n"},
	} {
		r.Set(step.serving)
		health = step.health
		if status, body := ask(); status != step.status || body != step.body {
			t.Errorf("%+v: %d %q", step, status, body)
		}
	}
}
