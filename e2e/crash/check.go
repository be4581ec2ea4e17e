package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// ErrBroken is returned when the server did not keep its word.
var ErrBroken = errors.New("the server did not keep its word")

// findingsMax bounds how many differences are listed for one check of a writer.
const findingsMax = 20

// noSuchName is what OpenTSDB says of a metric that it does not know.
const noSuchName = "No such name"

// answerSeries is one series of an answer of /api/query with arrays.
type answerSeries struct {
	Metric string            `json:"metric"`
	Tags   map[string]string `json:"tags"`
	DPS    [][2]float64      `json:"dps"`
}

// checkChapter reads all series of a chapter and compares them with the model.
// It gives the number of samples compared.
func checkChapter(ctx context.Context, client *http.Client, address string, c *chapter) (int64, error) {
	totals := make([]int64, len(c.writers))
	failures := make([]error, len(c.writers))
	var group sync.WaitGroup
	for i, writer := range c.writers {
		group.Go(func() {
			answer, err := readWriter(ctx, client, address, c, writer)
			if err != nil {
				failures[i] = err
				return
			}
			var findings []string
			totals[i], findings = compare(c, writer, answer)
			if len(findings) > 0 {
				failures[i] = fmt.Errorf("%w: writer %d of %s, %d differences:\n%s", ErrBroken, writer.number, c.metric,
					len(findings), joinLines(findings))
			}
		})
	}
	group.Wait()
	var total int64
	for _, n := range totals {
		total += n
	}
	return total, errors.Join(failures...)
}

func joinLines(findings []string) string {
	text := ""
	for _, finding := range findings[:min(len(findings), findingsMax)] {
		text += "  " + finding + "\n"
	}
	return text
}

// readWriter asks for all samples of a writer's series.
func readWriter(ctx context.Context, client *http.Client, address string, c *chapter, w *modelWriter) ([]answerSeries, error) {
	first, last := int64(math.MaxInt64), int64(0)
	for _, series := range w.series {
		first = min(first, series.firstMs)
		// Beyond what was written, so that made-up samples are seen too.
		last = max(last, series.timeMs(len(series.points)+1000))
	}
	m := fmt.Sprintf("none:%s{writer=%d}", c.metric, w.number)
	path := fmt.Sprintf("http://%s/api/query?start=%d&end=%d&ms=true&arrays=true&m=%s", address, first-3_600_000, last, url.QueryEscape(m))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<30))
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusBadRequest && bytes.Contains(body, []byte(noSuchName)) {
		return nil, nil // nothing was stored: the comparison says whether that is right
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s to %s: %.500s", ErrBroken, response.Status, path, body)
	}
	var answer []answerSeries
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: the answer to %s: %w", ErrBroken, path, err)
	}
	return answer, nil
}

// compare checks an answer against the model and makes what it saw binding.
func compare(c *chapter, w *modelWriter, answer []answerSeries) (checked int64, findings []string) {
	seen := map[string]bool{}
	for _, got := range answer {
		name := got.Tags["series"]
		at := slices.IndexFunc(w.series, func(s *modelSeries) bool { return s.name == name })
		switch {
		case at < 0 || got.Metric != c.metric || got.Tags["writer"] != fmt.Sprint(w.number) || len(got.Tags) != 2:
			findings = append(findings, fmt.Sprintf("series %s %v was never sent", got.Metric, got.Tags))
		case seen[name]:
			findings = append(findings, fmt.Sprintf("series %s is in the answer twice", name))
		default:
			seen[name] = true
			findings = append(findings, compareSeries(c, w.series[at], got.DPS)...)
			checked += int64(len(got.DPS))
		}
	}
	for _, series := range w.series {
		if !seen[series.name] {
			findings = append(findings, compareSeries(c, series, nil)...)
		}
	}
	return checked, findings
}

func compareSeries(c *chapter, s *modelSeries, got [][2]float64) []string {
	var findings []string
	present := make([]bool, len(s.points))
	lastMs := int64(math.MinInt64)
	for _, sample := range got {
		timeMs := int64(sample[0])
		if timeMs <= lastMs {
			findings = append(findings, fmt.Sprintf("%s at %d: after a sample at %d, so twice or out of order", s.name, timeMs, lastMs))
		}
		lastMs = timeMs
		index, ok := s.indexOf(timeMs)
		if !ok {
			findings = append(findings, fmt.Sprintf("%s at %d: never sent for this time, yet there is %v", s.name, timeMs, sample[1]))
			continue
		}
		present[index] = true
		v, known := c.versionOf(s, index, sample[1])
		if finding := judge(s, index, v, known, sample[1]); finding != "" {
			findings = append(findings, finding)
			continue
		}
		s.observe(index, v)
	}
	for index := range s.points {
		if present[index] || s.points[index].used == 0 {
			continue
		}
		if s.may(index, 0) || s.timeMs(index) < c.cutMs {
			s.observe(index, 0)
			continue
		}
		findings = append(findings, fmt.Sprintf("%s at %d: missing; write %d was acknowledged (open: %v)", s.name, s.timeMs(index), s.points[index].settled, s.open[index]))
	}
	return findings
}

// versionOf finds the write that a value comes from.
func (c *chapter) versionOf(s *modelSeries, index int, value float64) (version, bool) {
	for v := s.points[index].used; v > 0; v-- {
		if math.Float64bits(c.value(s, index, v)) == math.Float64bits(value) {
			return v, true
		}
	}
	return 0, false
}

// judge names what is wrong with a sample that is there; "" if nothing is.
func judge(s *modelSeries, index int, v version, known bool, value float64) string {
	p := s.points[index]
	switch {
	case !known:
		return fmt.Sprintf("%s at %d: %v was never sent (%d writes were)", s.name, s.timeMs(index), value, p.used)
	case s.may(index, v):
		return ""
	case p.settled == 0:
		return fmt.Sprintf("%s at %d: deleted, yet write %d is back", s.name, s.timeMs(index), v)
	default:
		return fmt.Sprintf("%s at %d: write %d was acknowledged, yet write %d is there", s.name, s.timeMs(index), p.settled, v)
	}
}
