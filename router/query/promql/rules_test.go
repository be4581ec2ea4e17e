package promql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// ruleLab has the groups of the default database.
type ruleLab []*rules.Group

func (l ruleLab) Groups(_ context.Context, database string) ([]*rules.Group, error) {
	if database == "" {
		return l, nil
	}
	return nil, nil
}

func (ruleLab) Alertmanagers() []string { return []string{"http://am/api/v2/alerts"} }

// newRuleLab makes a group with a recording rule and an alerting rule, which fires, and one with a rule that fails.
func newRuleLab(t *testing.T) ruleLab {
	t.Helper()
	p := parser.NewParser(parser.Options{})
	expr := func(text string) parser.Expr {
		e, err := p.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	at := time.UnixMilli(labMs).UTC()
	hot := rules.NewAlertingRule("Hot", expr("up == 0"), 0, time.Minute, labels.FromStrings("severity", "page"), labels.FromStrings("summary", "{{ $value }}"), labels.EmptyLabels(), "", true, nil)
	query := func(context.Context, string, time.Time) (promql.Vector, error) {
		return promql.Vector{{Metric: labels.FromStrings("job", "b"), T: labMs, F: 0}, {Metric: labels.FromStrings("job", "a"), T: labMs, F: 0.5}}, nil
	}
	if _, err := hot.Eval(t.Context(), 0, at, query, nil, 0); err != nil {
		t.Fatal(err)
	}
	hot.SetHealth(rules.HealthGood)
	hot.SetEvaluationTimestamp(at)
	bad := rules.NewRecordingRule("job:bad", expr("sum(up)"), labels.FromStrings("severity", "none"))
	bad.SetHealth(rules.HealthBad)
	bad.SetLastError(errors.New("too much"))
	group := func(name string, all ...rules.Rule) *rules.Group {
		return rules.NewGroup(rules.GroupOptions{Name: name, File: "r.yaml", Interval: 30 * time.Second, Limit: 5, Rules: all})
	}
	return ruleLab{group("one", rules.NewRecordingRule("job:up", expr("sum by (job) (up)"), labels.EmptyLabels()), hot), group("two", bad)}
}

// TestRules: what Grafana reads of rules and alerts, byte for byte, and what its parameters pick.
func TestRules(t *testing.T) {
	o := labOptions(t)
	o.Rules = newRuleLab(t)
	h := New(o)
	alerts := `[{"labels":{"alertname":"Hot","job":"a","severity":"page"},"annotations":{"summary":"0.5"},"state":"firing","activeAt":"2025-06-15T15:06:40Z","value":"5e-01"},` +
		`{"labels":{"alertname":"Hot","job":"b","severity":"page"},"annotations":{"summary":"0"},"state":"firing","activeAt":"2025-06-15T15:06:40Z","value":"0e+00"}]`
	recording := `{"name":"job:up","query":"sum by (job) (up)","labels":{},"health":"unknown","evaluationTime":0,"lastEvaluation":"0001-01-01T00:00:00Z","type":"recording"}`
	alerting := func(alerts string) string {
		return `{"state":"firing","name":"Hot","query":"up == 0","duration":0,"keepFiringFor":60,"labels":{"severity":"page"},"annotations":{"summary":"{{ $value }}"},"alerts":` + alerts +
			`,"health":"ok","evaluationTime":0,"lastEvaluation":"2025-06-15T15:06:40Z","type":"alerting"}`
	}
	failing := `{"name":"job:bad","query":"sum(up)","labels":{"severity":"none"},"health":"err","lastError":"too much","evaluationTime":0,"lastEvaluation":"0001-01-01T00:00:00Z","type":"recording"}`
	group := func(name string, rules ...string) string {
		return fmt.Sprintf(`{"name":%q,"file":"r.yaml","rules":[%s],"interval":30,"limit":5,"evaluationTime":0,"lastEvaluation":"0001-01-01T00:00:00Z"}`, name, strings.Join(rules, ","))
	}
	groups := func(all ...string) string { return `{"groups":[` + strings.Join(all, ",") + `]}` }
	token := tokenOf(o.Rules.(ruleLab)[1])
	for target, want := range map[string]string{
		"rules":                                groups(group("one", recording, alerting(alerts)), group("two", failing)),
		"rules?type=alert":                     groups(group("one", alerting(alerts))),
		"rules?type=Record":                    groups(group("one", recording), group("two", failing)),
		"rules?exclude_alerts=true&type=alert": groups(group("one", alerting("null"))),
		"rules?rule_name[]=job:bad&rule_name[]=none":    groups(group("two", failing)),
		"rules?rule_group[]=two":                        groups(group("two", failing)),
		"rules?file[]=r.yaml&rule_name[]=job:up":        groups(group("one", recording)),
		"rules?file[]=other.yaml":                       groups(),
		`rules?match[]={severity="none"}`:               groups(group("two", failing)),
		"rules?group_limit=1&type=record":               `{"groups":[` + group("one", recording) + `],"groupNextToken":"` + token + `"}`,
		"rules?group_limit=1&group_next_token=" + token: groups(group("two", failing)),
		"rules?db=other":                                groups(),
		"alerts":                                        `{"alerts":` + alerts + `}`,
		"alerts?db=other":                               `{"alerts":[]}`,
		"alertmanagers":                                 `{"activeAlertmanagers":[{"url":"http://am/api/v2/alerts"}],"droppedAlertmanagers":[]}`,
	} {
		if got := get(h, strings.NewReplacer("{", "%7B", "}", "%7D", `"`, "%22").Replace(target)); got.status != 200 || got.body != success(want) {
			t.Errorf("%s: %d\n%s\nwant\n%s", target, got.status, got.body, success(want))
		}
	}
	for _, target := range []string{
		"rules?type=both", "rules?exclude_alerts=maybe", "rules?group_limit=0", "rules?group_limit=x", "rules?group_next_token=" + token,
		"rules?group_limit=1&group_next_token=gone", "rules?match[]=%7B", "rules?match[]=" + strings.Repeat("(", 10_000),
	} {
		if got := get(h, target); got.status != 400 {
			t.Errorf("%.60s: %d %s", target, got.status, got.body)
		}
	}
}

// only may read one database.
type only string

func (o only) Name() string { return "only" }
func (o only) May(database string, r access.Right) bool {
	return database == string(o) && r == access.Read
}

// Who may not read a database learns nothing of its rules.
func TestRulesOfOthers(t *testing.T) {
	o := labOptions(t)
	o.Rules = newRuleLab(t)
	h := New(o)
	for _, path := range []string{"rules", "alerts"} {
		for target, status := range map[string]int{path: 403, path + "?db=mine": 200} {
			r := httptest.NewRequest("GET", pathPrefix+target, nil)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(access.With(r.Context(), only("mine"))))
			if w.Code != status || strings.Contains(w.Body.String(), "Hot") {
				t.Errorf("%s: %d %s", target, w.Code, w.Body)
			}
		}
	}
}

// Rules ask as clients do: the same answers, in admission control, in no more places than are theirs.
func TestEvaluate(t *testing.T) {
	o := labOptions(t)
	o.RulesRunningMax = 1
	o.Admission = admission.New(admission.Options{Limits: admission.Limits{SamplesMax: 20}, LimitsOf: func(string) admission.Limits { return admission.Limits{} }})
	o.Source = o.Admission.Source(o.Source)
	a := New(o)
	at := time.UnixMilli(labMs)
	for _, expr := range []string{"up", "sum(up)", "up == 0 or lonely", "rate(requests_total[2m])", "absent(none)", "max_over_time(up[5m:1m])", "1 + 1", "vector(3)", "sort(up)"} {
		got, err := a.Evaluate(t.Context(), "", expr, at)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		var answer struct {
			Data struct {
				ResultType string
				Result     json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(get(a, "query?query="+strings.NewReplacer("+", "%2B", " ", "+").Replace(expr)).body), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Data.ResultType == "scalar" {
			if len(got) != 1 || got[0].F != 2 {
				t.Errorf("%s: %v", expr, got)
			}
			continue
		}
		want, err := json.Marshal(got)
		if err != nil || !sameJSON(t, want, answer.Data.Result) {
			t.Errorf("%s: %s, a client gets %s, %v", expr, want, answer.Data.Result, err)
		}
	}
	if got, err := a.Evaluate(t.Context(), "other", "up", at); err != nil || len(got) != 1 || got[0].F != 42 {
		t.Errorf("of another database: %v, %v", got, err)
	}
	var limit *scan.LimitError
	for _, expr := range []string{"sum(", `"text"`, "up[5m]", strings.Repeat("(", 10_000) + "1"} {
		if got, err := a.Evaluate(t.Context(), "", expr, at); err == nil {
			t.Errorf("%.20s: %v", expr, got)
		}
	}
	if _, err := a.Evaluate(t.Context(), "", `max_over_time({__name__=~".+"}[1h])`, at); !errors.As(err, &limit) {
		t.Errorf("beyond the bound of samples: %v", err)
	}
	a.rulePlaces <- struct{}{} // as if another ran
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Evaluate(ctx, "", "up", at); !errors.Is(err, context.Canceled) {
		t.Errorf("without a place: %v", err)
	}
	<-a.rulePlaces
	q, err := a.Queryable("").Querier(labMs-3_600_000, labMs)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // each gives back its place for the next
		set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "up"))
		n := 0
		for set.Next() {
			n++
		}
		if n != 2 || set.Err() != nil {
			t.Errorf("%d series, %v", n, set.Err())
		}
	}
	if running := o.Admission.Running(); len(running) != 1 || running[0].Dialect != "rules" || running[0].Text != `select __name__="up"` {
		t.Errorf("%+v", running)
	}
	if err := q.Close(); err != nil || len(o.Admission.Running()) != 0 || o.Admission.Bytes() != 0 || len(a.rulePlaces) != 0 {
		t.Errorf("%v; %v run and hold %d bytes, %d places are taken", err, o.Admission.Running(), o.Admission.Bytes(), len(a.rulePlaces))
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}
