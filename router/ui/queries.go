package ui

import (
	"net/http"
	"strconv"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// queriesView is admission control of queries as far as the caller may see it.
type queriesView struct {
	Running []queryView `json:"running"`
	Slow    []queryView `json:"slow"`
	Hidden  int         `json:"hidden"` // running or slow ones of databases that the caller may not read
}

// queryView is one query. Times are Unix milliseconds, durations milliseconds.
type queryView struct {
	ID        string  `json:"id"` // a number, too large for some readers of JSON
	Dialect   string  `json:"dialect"`
	Database  string  `json:"database"`
	Text      string  `json:"text"`
	User      string  `json:"user"`
	BeganMs   int64   `json:"beganMs"`
	TookMs    float64 `json:"tookMs"`
	Series    int64   `json:"series"`
	Samples   int64   `json:"samples"`
	Bytes     int64   `json:"bytes"`
	Error     string  `json:"error"`
	MayCancel bool    `json:"mayCancel"`
}

// queries lists the queries that run and the slow ones.
func (h *handler) queries(r *http.Request) (any, error) {
	v := &queriesView{Running: []queryView{}, Slow: []queryView{}}
	who := access.Of(r.Context())
	may := func(report *admission.Report, right access.Right) bool {
		return report.All(func(database string) bool { return who.May(database, right) })
	}
	add := func(to *[]queryView, reports []admission.Report, running bool) {
		for i := range reports {
			report := &reports[i]
			if !may(report, access.Read) {
				v.Hidden++
				continue
			}
			view := viewQuery(report)
			view.MayCancel = running && may(report, access.Admin)
			*to = append(*to, view)
		}
	}
	add(&v.Running, h.Admission.Running(), true)
	add(&v.Slow, h.Admission.Slow(), false)
	return v, nil
}

func viewQuery(r *admission.Report) queryView {
	return queryView{
		ID: strconv.FormatUint(r.ID, 10), Dialect: r.Dialect, Database: access.Display(r.Database), Text: r.Text, User: r.User,
		BeganMs: r.Began.UnixMilli(), TookMs: float64(r.Took.Microseconds()) / 1000,
		Series: r.Series, Samples: r.Samples, Bytes: r.Bytes, Error: r.Err,
	}
}

// canceledView describes what became of a cancellation.
type canceledView struct {
	Canceled bool `json:"canceled"` // false: the query had ended already
}

// cancel ends the query of the parameter id. Who serves the page refuses requests of pages of
// other origins (api/origin).
func (h *handler) cancel(r *http.Request) (any, error) {
	id, err := strconv.ParseUint(r.URL.Query().Get("id"), 10, 64)
	if err != nil {
		return nil, badRequest("id is %q, expected the number of a query", r.URL.Query().Get("id"))
	}
	running := h.Admission.Running()
	for i := range running {
		if running[i].ID != id {
			continue
		}
		for _, database := range append([]string{running[i].Database}, running[i].Others...) {
			if err := access.Check(r.Context(), database, access.Admin); err != nil {
				return nil, err
			}
		}
		audit.Of(r.Context()).Did(audit.Deed{Do: "cancel query", On: strconv.FormatUint(id, 10)}, nil)
		return &canceledView{Canceled: h.Admission.Cancel(id)}, nil
	}
	return &canceledView{}, nil
}
