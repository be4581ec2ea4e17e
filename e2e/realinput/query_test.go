package realinput

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

// samples are values by time in milliseconds.
type samples map[int64]float64

// startServer builds and starts the server; it ends with the test.
func startServer(t *testing.T) *harness.Standalone {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test builds the server and runs a collector for some seconds")
	}
	return harnesstest.Standalone(t)
}

// get fetches a URL; status 400 returns an empty body, because it is how an unknown
// metric is answered.
func get(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusBadRequest {
		return nil, nil
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: %.300s", address, response.Status, body)
	}
	return body, nil
}

// stored asks the server for all samples of a metric whose series have the tag.
// The map's keys are the series' tags, as text.
func stored(ctx context.Context, server *harness.Standalone, metric, tag string, fromMs, toMs int64) (map[string]samples, error) {
	body, err := get(ctx, fmt.Sprintf("http://%s/api/query?start=%d&end=%d&ms=true&arrays=true&m=%s", server.HTTPAddr, fromMs, toMs,
		url.QueryEscape("none:"+metric+"{"+tag+"}")))
	if err != nil || body == nil {
		return nil, err
	}
	var answer []struct {
		Tags map[string]string
		DPS  [][2]any
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w in %.300s", err, body)
	}
	found := map[string]samples{}
	for _, series := range answer {
		name := tagsText(series.Tags)
		if found[name] != nil {
			return nil, fmt.Errorf("%s %s comes twice", metric, name)
		}
		found[name] = samples{}
		for _, point := range series.DPS {
			timeMs, ok := point[0].(float64)
			value, err := number(point[1])
			if _, again := found[name][int64(timeMs)]; !ok || err != nil || again {
				return nil, fmt.Errorf("%s %s: sample %v: not a new time and a value (%w)", metric, name, point, err)
			}
			found[name][int64(timeMs)] = value
		}
	}
	return found, nil
}

// number reads a value of an answer: not all numbers are numbers in JSON.
func number(value any) (float64, error) {
	switch value := value.(type) {
	case float64:
		return value, nil
	case nil:
		return math.NaN(), nil
	case string:
		return strconv.ParseFloat(value, 64)
	}
	return 0, fmt.Errorf("a value of type %T", value)
}

// tagsText writes tags in the order of their names.
func tagsText(tags map[string]string) string {
	parts := make([]string, 0, len(tags))
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		parts = append(parts, name+"="+tags[name])
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// difference names the first sample that differs, or is on one side only; "" if
// all are equal. NaN equals NaN, and tolerance is absolute.
func difference(want, got samples, tolerance float64) string {
	for _, timeMs := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[timeMs]
		switch {
		case !ok:
			return fmt.Sprintf("at %d: missing, want %v", timeMs, want[timeMs])
		case math.IsNaN(want[timeMs]) && math.IsNaN(value), want[timeMs] == value:
		case !(math.Abs(want[timeMs]-value) <= tolerance):
			return fmt.Sprintf("at %d: %v, want %v", timeMs, value, want[timeMs])
		}
	}
	for _, timeMs := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[timeMs]; !ok {
			return fmt.Sprintf("at %d: %v, which the source does not have", timeMs, got[timeMs])
		}
	}
	return ""
}

// eventually repeats check until it returns "", for at most timeout, and fails with
// its last text otherwise.
func eventually(t *testing.T, timeout time.Duration, check func() string) {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		state := check()
		if state == "" {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("still after %s: %s", timeout, state)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-ticker.C:
		}
	}
}

func TestDifference(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		want, got samples
		equal     bool
	}{
		{samples{1: 2, 3: nan, 4: inf}, samples{1: 2, 3: nan, 4: inf}, true},
		{samples{1: 2}, samples{1: 2.25}, true},
		{samples{1: 2}, samples{1: 2.75}, false},
		{samples{1: 2}, samples{}, false},
		{samples{1: 2}, samples{1: 2, 2: 2}, false},
		{samples{1: nan}, samples{1: 2}, false},
		{samples{1: 2}, samples{1: nan}, false},
		{samples{1: inf}, samples{1: -inf}, false},
	} {
		if found := difference(test.want, test.got, 0.5); (found == "") != test.equal {
			t.Errorf("%v and %v: %q", test.want, test.got, found)
		}
	}
}
