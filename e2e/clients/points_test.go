package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// points are values by time in milliseconds.
type points map[int64]float64

// stock is points by series, as name{tag=value,…}.
type stock map[string]points

// seriesName names a series; tags without a value are not there.
func seriesName(metric string, tags map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if tags[name] != "" {
			parts = append(parts, name+"="+tags[name])
		}
	}
	return metric + "{" + strings.Join(parts, ",") + "}"
}

func (s stock) add(series string, timeMs int64, value float64) {
	if s[series] == nil {
		s[series] = points{}
	}
	s[series][timeMs] = value
}

// difference returns where two stocks differ, or nothing.
func difference(want, got stock) string {
	for _, series := range slices.Sorted(maps.Keys(want)) {
		if !maps.Equal(want[series], got[series]) {
			return fmt.Sprintf("%s is %v, want %v", series, got[series], want[series])
		}
	}
	for series := range got {
		if want[series] == nil {
			return fmt.Sprintf("%s is there, of %d series", series, len(got))
		}
	}
	return ""
}

// reader reads all points of a metric in one query language.
type reader func(ctx context.Context, s *server, database, metric string, fromMs, toMs int64) (stock, error)

// readers are the query languages.
func readers() map[string]reader {
	return map[string]reader{"opentsdb": readOpenTSDB, "promql": readPromQL, "influxql": readInfluxQL}
}

func readOpenTSDB(ctx context.Context, s *server, database, metric string, fromMs, toMs int64) (stock, error) {
	body, err := s.get(ctx, fmt.Sprintf("/api/query?db=%s&start=%d&end=%d&ms&arrays&m=none:%s", url.QueryEscape(database), fromMs, toMs, url.QueryEscape(metric)))
	found := stock{}
	if err != nil || body == nil {
		return found, err
	}
	var answer []struct {
		Metric string
		Tags   map[string]string
		DPS    [][2]float64
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: %.300s", err, body)
	}
	for _, r := range answer {
		for _, p := range r.DPS {
			found.add(seriesName(r.Metric, r.Tags), int64(p[0]), p[1])
		}
	}
	return found, nil
}

func readPromQL(ctx context.Context, s *server, database, metric string, fromMs, toMs int64) (stock, error) {
	expression := fmt.Sprintf(`{__name__=%q}[%dms]`, metric, toMs-fromMs)
	body, err := s.get(ctx, fmt.Sprintf("/api/v1/query?db=%s&query=%s&time=%d.%03d", url.QueryEscape(database), url.QueryEscape(expression), toMs/1000, toMs%1000))
	found := stock{}
	if err != nil || body == nil {
		return found, err
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: %.300s", err, body)
	}
	for _, r := range answer.Data.Result {
		name := r.Metric["__name__"]
		delete(r.Metric, "__name__")
		for _, p := range r.Values {
			seconds, ok := p[0].(float64)
			text, isText := p[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if !ok || !isText || err != nil {
				return nil, fmt.Errorf("a sample is %v", p)
			}
			found.add(seriesName(name, r.Metric), int64(seconds*1000+0.5), value)
		}
	}
	return found, nil
}

// readInfluxQL undoes what line protocol's fields become: a tag, but for the field value.
func readInfluxQL(ctx context.Context, s *server, database, metric string, fromMs, toMs int64) (stock, error) {
	statement := fmt.Sprintf(`SELECT * FROM "%s" WHERE time >= %dms AND time <= %dms GROUP BY *`, metric, fromMs, toMs)
	body, err := s.get(ctx, fmt.Sprintf("/query?db=%s&epoch=ms&q=%s", url.QueryEscape(database), url.QueryEscape(statement)))
	found := stock{}
	if err != nil || body == nil {
		return found, err
	}
	var answer struct {
		Results []struct {
			Error  string
			Series []struct {
				Name    string
				Tags    map[string]string
				Columns []string
				Values  [][]*float64
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: %.300s", err, body)
	}
	for _, r := range answer.Results {
		if r.Error != "" {
			return found, fmt.Errorf("%s: %s", statement, r.Error)
		}
		for _, series := range r.Series {
			for column, field := range series.Columns[1:] {
				tags := maps.Clone(series.Tags)
				if field != "value" {
					tags["_field"] = field
				}
				for _, row := range series.Values {
					if value := row[1+column]; value != nil {
						found.add(seriesName(series.Name, tags), int64(*row[0]), *value)
					}
				}
			}
		}
	}
	return found, nil
}
