package promql

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
)

// metadata serves /api/v1/metadata: what writers have said of metrics.
func (h *handler) metadata(x *exchange) error {
	limit, err := countParameter(x.form, "limit")
	if err != nil {
		return err
	}
	each, err := countParameter(x.form, "limit_per_metric")
	if err != nil {
		return err
	}
	type entry struct {
		Type string `json:"type"`
		Unit string `json:"unit"`
		Help string `json:"help"`
	}
	found := map[string][]entry{}
	if h.options.Metadata != nil && limit != 0 {
		for _, database := range x.databases {
			for _, m := range h.options.Metadata.Metadata(database, x.form.Get("metric"), max(0, limit)) {
				said := entry{m.Type, m.Unit, m.Help}
				of, known := found[m.Metric]
				if (known || limit < 0 || len(found) < limit) && (each <= 0 || len(of) < each) && !slices.Contains(of, said) {
					found[m.Metric] = append(of, said)
				}
			}
		}
	}
	return x.out.value(found)
}

// countParameter reads a number; -1 when it is not there. As in Prometheus a negative one
// is no limit.
func countParameter(form url.Values, name string) (int, error) {
	text := form.Get(name)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, badData(errors.New(name + " must be a number"))
	}
	return n, nil
}
