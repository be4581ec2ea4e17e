package promql

import (
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/tickmesh/tickmesh/api/scan"
)

// readForm reads the parameters of a request: those of a form in its body first, then those
// of its URL. The body is read before anything else looks at the request.
func readForm(r *http.Request, bytesMax int64) (url.Values, error) {
	form, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badData(fmt.Errorf("error parsing form values: %w", err))
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPut || r.Body == nil {
		return form, nil
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return form, nil //nolint:nilerr // another kind of body has no parameters
	}
	body, err := readBody(r, bytesMax)
	if err != nil {
		return nil, err
	}
	posted, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, badData(fmt.Errorf("error parsing form values: %w", err))
	}
	for name, values := range form {
		posted[name] = append(posted[name], values...)
	}
	return posted, nil
}

// readBody reads a body of at most bytesMax bytes.
func readBody(r *http.Request, bytesMax int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bytesMax+1))
	if err != nil {
		return nil, badData(err)
	}
	if int64(len(body)) > bytesMax {
		return nil, &apiError{http.StatusRequestEntityTooLarge, kindBadData, fmt.Errorf("the body is longer than %d bytes", bytesMax)}
	}
	return body, nil
}

// The ends of time, as Prometheus writes and takes them.
//
//nolint:gochecknoglobals // constants
var (
	timeMin = time.Unix(math.MinInt64/1000+62135596801, 0).UTC()
	timeMax = time.Unix(math.MaxInt64/1000-62135596801, 999999999).UTC()
)

// parseTime reads seconds since the epoch, with a fraction of milliseconds, or RFC 3339.
func parseTime(s string) (time.Time, error) {
	if t, err := strconv.ParseFloat(s, 64); err == nil {
		seconds, fraction := math.Modf(t)
		if !(seconds >= float64(timeMin.Unix()) && seconds <= float64(timeMax.Unix())) {
			return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
		}
		fraction = math.Round(fraction*1000) / 1000
		return time.Unix(int64(seconds), int64(fraction*float64(time.Second))).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	switch s { // years that the standard library's parser does not take
	case timeMin.Format(time.RFC3339Nano):
		return timeMin, nil
	case timeMax.Format(time.RFC3339Nano):
		return timeMax, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// timeParameter reads a time, or returns the default when it is not there.
func timeParameter(form url.Values, name string, missing time.Time) (time.Time, error) {
	text := form.Get(name)
	if text == "" {
		return missing, nil
	}
	t, err := parseTime(text)
	if err != nil {
		return t, invalidParameter(fmt.Errorf("invalid time value for '%s': %w", name, err), name)
	}
	return t, nil
}

// rangeParameters returns start and end of requests that list, in milliseconds; what is not
// there does not bound.
func rangeParameters(form url.Values) (fromMs, toMs int64, err error) {
	start, err := timeParameter(form, "start", timeMin)
	if err != nil {
		return 0, 0, err
	}
	end, err := timeParameter(form, "end", timeMax)
	return max(start.UnixMilli(), scan.TimeMsMin), min(end.UnixMilli(), scan.TimeMsMax), err
}

// parseDuration reads seconds, with a fraction, or Prometheus' durations like 5m.
func parseDuration(s string) (time.Duration, error) {
	if d, err := strconv.ParseFloat(s, 64); err == nil {
		ns := d * float64(time.Second)
		if !(ns < math.MaxInt64 && ns > math.MinInt64) {
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(ns), nil
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}

// durationParameter reads a duration; 0 when it is not there.
func durationParameter(form url.Values, name string) (time.Duration, error) {
	text := form.Get(name)
	if text == "" {
		return 0, nil
	}
	d, err := parseDuration(text)
	if err != nil {
		return 0, invalidParameter(err, name)
	}
	return d, nil
}

// limitParameter reads a limit; 0 is none.
func limitParameter(form url.Values) (int, error) {
	text := form.Get("limit")
	if text == "" {
		return 0, nil
	}
	limit, err := strconv.Atoi(text)
	if err == nil && limit < 0 {
		err = errors.New("limit must be non-negative")
	}
	if err != nil {
		return 0, invalidParameter(err, "limit")
	}
	return limit, nil
}

// errNoMatcher is how Prometheus refuses to pick everything.
var errNoMatcher = errors.New("match[] must contain at least one non-empty matcher")

// selectors reads the parameters match[]. Each needs a matcher that not every value matches.
func (h *handler) selectors(x *exchange) ([][]*labels.Matcher, error) {
	texts := x.form["match[]"]
	m, err := measure(texts...)
	if err != nil {
		return nil, badData(err)
	}
	if err := x.entry.Take(m.Bytes()); err != nil {
		return nil, err
	}
	sets, err := h.parser.ParseMetricSelectors(texts)
	if err != nil {
		return nil, badData(err)
	}
	for _, set := range sets {
		if matchAll(set, "") {
			return nil, badData(errNoMatcher)
		}
	}
	return sets, nil
}
