package server

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/router/query/opentsdb"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// of may read its databases.
type of []string

func (o of) Name() string { return "of" }

func (o of) May(database string, right access.Right) bool {
	return right <= access.Read && slices.Contains(o, database)
}

// Metrics name the databases that the caller may read, and no others.
func TestMetricsOfDatabases(t *testing.T) {
	r := process.NewRegistry()
	m := tenant.NewMeter(tenant.MeterOptions{})
	m.Open("mine")
	m.Open("others")
	r.MustRegister(m)
	for name, c := range map[string]struct {
		who  access.Principal
		want []string
	}{
		"anyone": {access.Anyone(), []string{"default", "mine", "others", "*"}},
		"tenant": {of{"mine"}, []string{"mine"}},
		"nobody": {nil, nil},
	} {
		ctx := context.Background()
		if c.who != nil {
			ctx = access.With(ctx, c.who)
		}
		w := httptest.NewRecorder()
		r.ServeMetrics(w, httptest.NewRequest("GET", "/metrics", nil).WithContext(ctx))
		stats := statsOf(ctx, r)
		if !strings.Contains(w.Body.String(), "go_goroutines") {
			t.Errorf("%s: the others are gone, too", name)
		}
		for _, database := range []string{"default", "mine", "others", "*"} {
			inStats := slices.ContainsFunc(stats, func(s opentsdb.Stat) bool { return s.Tags["database"] == database })
			if shown := strings.Contains(w.Body.String(), `database="`+database+`"`); shown != slices.Contains(c.want, database) || inStats != shown {
				t.Errorf("%s: database %s is shown: %v, in stats %v", name, database, shown, inStats)
			}
		}
	}
}
