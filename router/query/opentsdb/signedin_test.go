package opentsdb

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// somebody is signed in until its credentials are withdrawn.
type somebody struct{ out atomic.Bool }

func (*somebody) Name() string                    { return "ann" }
func (s *somebody) May(string, access.Right) bool { return !s.out.Load() }

// endless is a source whose scans end with their context. They withdraw the credentials of who asks.
type endless struct {
	scan.Source
	who *somebody
}

func (s endless) Scan(ctx context.Context, _ *scan.Request, _ scan.Visitor) error {
	s.who.out.Store(true)
	<-ctx.Done()
	return ctx.Err()
}

// TestQueriesEndWithTheCredentials: a query that runs ends when the credentials that it came with hold no more, and its answer says so.
func TestQueriesEndWithTheCredentials(t *testing.T) {
	who := &somebody{}
	s := newServer(t, func(o *Options) { o.Source = endless{o.Source, who} })
	r := httptest.NewRequestWithContext(access.With(t.Context(), who), http.MethodGet, "/api/query?start=1m-ago&m=sum:cpu", http.NoBody)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), admission.ErrSignedOut.Error()) {
		t.Error(w.Code, w.Body)
	}
}
