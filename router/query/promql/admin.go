package promql

import (
	"errors"
	"net/http"

	"github.com/tickmesh/tickmesh/api/scan"
)

// errNoAdmin is how Prometheus refuses without --web.enable-admin-api.
var errNoAdmin = errors.New("admin APIs disabled")

var errEndBeforeStart = errors.New("end timestamp must not be before start timestamp")

// deleteSeries serves /api/v1/admin/tsdb/delete_series.
func (h *handler) deleteSeries(x *exchange) error {
	if h.options.Deleter == nil {
		return &apiError{http.StatusServiceUnavailable, kindUnavailable, errNoAdmin}
	}
	if len(x.form["match[]"]) == 0 {
		return badData(errors.New("no match[] parameter provided"))
	}
	start, err := timeParameter(x.form, "start", timeMin)
	if err != nil {
		return err
	}
	end, err := timeParameter(x.form, "end", timeMax)
	if err != nil {
		return err
	}
	if end.Before(start) {
		return badData(errEndBeforeStart)
	}
	sets, err := h.selectors(x)
	if err != nil {
		return err
	}
	fromMs, toMs := max(start.UnixMilli(), scan.TimeMsMin), min(end.UnixMilli(), scan.TimeMsMax)
	for _, set := range sets {
		selectors, err := selectorsOf(x.ctx, x.reader.Source, x.database, set)
		if err != nil {
			return err
		}
		for i := range selectors {
			if _, err := h.options.Deleter.Delete(x.ctx, &selectors[i], fromMs, toMs); err != nil {
				return fromSource(err)
			}
		}
	}
	x.out.w.WriteHeader(http.StatusNoContent)
	return nil
}

// cleanTombstones has nothing to do: compaction drops what was deleted.
func (h *handler) cleanTombstones(x *exchange) error {
	if h.options.Deleter == nil {
		return &apiError{http.StatusServiceUnavailable, kindUnavailable, errNoAdmin}
	}
	x.out.w.WriteHeader(http.StatusNoContent)
	return nil
}
