package endpoint_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/endpoint"
)

// A Mux within a Mux lists what it was given, and the outer one routes to it.
func TestMuxListsWhatItRoutes(t *testing.T) {
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	inner := &endpoint.Mux{}
	inner.HandleFunc("GET /a/x", answer(http.StatusAccepted))
	outer := &endpoint.Mux{}
	outer.Handle("/a/", inner)
	outer.Handle("/", inner)
	outer.Handle("POST /b", answer(http.StatusCreated))
	if got, want := outer.Endpoints(), []string{"GET /a/x", "POST /b"}; !slices.Equal(got, want) {
		t.Errorf("the endpoints are %q, want %q", got, want)
	}
	for target, want := range map[string]int{"/a/x": http.StatusAccepted, "/b": http.StatusNotFound} {
		recorder := httptest.NewRecorder()
		outer.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, target, nil))
		if recorder.Code != want {
			t.Errorf("GET %s is answered %d, want %d", target, recorder.Code, want)
		}
	}
	if got, want := endpoint.Patterns([]string{"GET", "PUT"}, "/c"), []string{"GET /c", "PUT /c"}; !slices.Equal(got, want) {
		t.Errorf("the patterns are %q, want %q", got, want)
	}
}
