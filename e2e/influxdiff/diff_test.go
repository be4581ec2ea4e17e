package influxdiff

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

var (
	many     = flag.Int("queries", 150, "random queries of each kind")
	seed     = flag.Uint64("seed", 1, "of the points and the queries")
	inMemory = flag.Bool("in-memory", false, "InfluxQL over points in memory, instead of a server")
	clipAt   = flag.Int("clip", 1000, "bytes of an answer that are shown")
)

// TestRandomQueries compares a server's answers.
func TestRandomQueries(t *testing.T) {
	start := startServer
	if *inMemory {
		start = startMemory
	}
	compareWith(t, start, *many)
}

// TestRandomQueriesOfCluster compares a cluster's answers, to fewer queries.
func TestRandomQueriesOfCluster(t *testing.T) { compareWith(t, startCluster, *many/5) }

func compareWith(t *testing.T, start func(t *testing.T, points []point, lines []byte) string, many int) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts an InfluxDB")
	}
	r := rand.New(rand.NewPCG(*seed, 2))
	points := makePoints(r)
	theirs := startInfluxd(t)
	if status, body := ask(t, theirs, "CREATE DATABASE d", nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	var lines []byte
	for i := range points {
		lines = append(append(lines, points[i].line()...), '\n')
	}
	write(t, theirs, lines)
	ours := start(t, points, lines)
	m := maker{r}
	for _, kind := range []struct {
		name string
		make func() string
	}{
		{"raw", m.raw}, {"windowed", m.windowed}, {"whole", m.whole}, {"single", m.single}, {"forecast", m.forecast}, {"best", m.best}, {"transformed", m.transformed}, {"nested", m.nested}, {"limited", m.limited}, {"clocks", m.clocks}, {"wrong", m.wrong}, {"show", m.show},
	} {
		t.Run(kind.name, func(t *testing.T) {
			failures, empty := 0, 0
			for range many {
				q := kind.make()
				parameters := url.Values{"epoch": {[]string{"ns", "ms", ""}[m.IntN(3)]}}
				wantStatus, want := ask(t, theirs, q, parameters)
				gotStatus, got := ask(t, ours, q, parameters)
				if strings.Contains(string(want), `{"results":[{"statement_id":0}]}`) {
					empty++
				}
				if strings.Contains(string(want), "unsupported value: ") { // an infinity, which is null here
					continue
				}
				got = []byte(strings.Replace(string(got), `["d"],["default"]`, `["d"]`, 1)) // that one is always there
				reason := compare(want, got)
				if reason != "" && kind.name == "forecast" {
					reason = compareGroups(t, theirs, q, parameters, want, got)
				}
				if wantStatus != gotStatus || reason != "" {
					if failures++; failures <= 5 {
						t.Errorf("%s\n  %s\n  influxdb %d %s\n  tickmesh %d %s", q, reason, wantStatus, clip(want), gotStatus, clip(got))
					}
				}
			}
			t.Logf("%d failures, %d empty of %d", failures, empty, many)
		})
	}
}

func clip(text []byte) string {
	if len(text) > *clipAt {
		return string(text[:*clipAt]) + "…"
	}
	return strings.TrimSpace(string(text))
}

// compare returns where two answers differ; empty: they do not.
func compare(want, got []byte) string {
	var a, b any
	if err := json.Unmarshal(want, &a); err != nil {
		return "influxdb: " + err.Error()
	}
	if err := json.Unmarshal(got, &b); err != nil {
		return "tickmesh: " + err.Error()
	}
	return difference("", a, b)
}

// compareGroups compares an answer group by group, each of which is asked for alone: a group that InfluxDB can forecast nothing
// of ends its answer, without those that follow.
func compareGroups(t *testing.T, theirs, q string, parameters url.Values, want, got []byte) string {
	t.Helper()
	type answered struct {
		Results []struct {
			Series []struct{ Tags map[string]string }
		}
	}
	var a, b answered
	if err := errors.Join(json.Unmarshal(want, &a), json.Unmarshal(got, &b)); err != nil {
		return err.Error()
	}
	if len(a.Results) != 1 || len(b.Results) != 1 || len(a.Results[0].Series) >= len(b.Results[0].Series) {
		return compare(want, got)
	}
	var single []json.RawMessage
	for _, s := range b.Results[0].Series {
		where := ""
		for key, value := range s.Tags {
			where += fmt.Sprintf(" AND %q = '%s'", key, value)
		}
		_, one := ask(t, theirs, strings.Replace(q, " GROUP BY ", where+" GROUP BY ", 1), parameters)
		var of struct {
			Results []struct{ Series []json.RawMessage }
		}
		if err := json.Unmarshal(one, &of); err != nil || len(of.Results) != 1 || len(of.Results[0].Series) != 1 {
			return fmt.Sprintf("%v alone: %v %s", s.Tags, err, clip(one))
		}
		single = append(single, of.Results[0].Series[0])
	}
	all, err := json.Marshal(map[string]any{"results": []any{map[string]any{"statement_id": 0, "series": single}}})
	if err != nil {
		return err.Error()
	}
	return compare(all, got)
}

func difference(path string, a, b any) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return fmt.Sprintf("%s: members", path)
		}
		for k := range x {
			if d := difference(path+"."+k, x[k], y[k]); d != "" {
				return d
			}
		}
		return ""
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return fmt.Sprintf("%s: %d elements, not %d", path, len(y), len(x))
		}
		for i := range x {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), x[i], y[i]); d != "" {
				return d
			}
		}
		return ""
	case float64:
		if y, ok := b.(float64); ok && (x == y || math.Abs(x-y) <= 1e-9*math.Max(math.Abs(x), math.Abs(y)) || math.Abs(x-y) < 1e-12) {
			return ""
		}
	default:
		if reflect.DeepEqual(a, b) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %v, not %v", path, b, a)
}
