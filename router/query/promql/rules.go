package promql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"
)

// Rules are what is evaluated for a database. Safe for concurrent use.
type Rules interface {
	// Groups returns the groups of a database, by file and name.
	Groups(ctx context.Context, database string) ([]*rules.Group, error)
	// Alertmanagers returns the URLs that alerts are sent to.
	Alertmanagers() []string
}

// noRules are those of a server that has none.
type noRules struct{}

func (noRules) Groups(context.Context, string) ([]*rules.Group, error) { return nil, nil }
func (noRules) Alertmanagers() []string                                { return nil }

// Answers of /api/v1/rules and /api/v1/alerts, as Prometheus' web/api/v1 has them.
type (
	ruleGroup struct {
		Name           string    `json:"name"`
		File           string    `json:"file"`
		Rules          []any     `json:"rules"` // of alertingRule and recordingRule, in the order of the file
		Interval       float64   `json:"interval"`
		Limit          int       `json:"limit"`
		EvaluationTime float64   `json:"evaluationTime"`
		LastEvaluation time.Time `json:"lastEvaluation"`
	}
	alertingRule struct {
		State          string           `json:"state"`
		Name           string           `json:"name"`
		Query          string           `json:"query"`
		Duration       float64          `json:"duration"`
		KeepFiringFor  float64          `json:"keepFiringFor"`
		Labels         labels.Labels    `json:"labels"`
		Annotations    labels.Labels    `json:"annotations"`
		Alerts         []alert          `json:"alerts"`
		Health         rules.RuleHealth `json:"health"`
		LastError      string           `json:"lastError,omitempty"`
		EvaluationTime float64          `json:"evaluationTime"`
		LastEvaluation time.Time        `json:"lastEvaluation"`
		Type           string           `json:"type"`
	}
	recordingRule struct {
		Name           string           `json:"name"`
		Query          string           `json:"query"`
		Labels         labels.Labels    `json:"labels"`
		Health         rules.RuleHealth `json:"health"`
		LastError      string           `json:"lastError,omitempty"`
		EvaluationTime float64          `json:"evaluationTime"`
		LastEvaluation time.Time        `json:"lastEvaluation"`
		Type           string           `json:"type"`
	}
	alert struct {
		Labels          labels.Labels `json:"labels"`
		Annotations     labels.Labels `json:"annotations"`
		State           string        `json:"state"`
		ActiveAt        *time.Time    `json:"activeAt,omitempty"`
		KeepFiringSince *time.Time    `json:"keepFiringSince,omitempty"`
		Value           string        `json:"value"`
	}
)

// ruleFilter is what a request for rules asks for.
type ruleFilter struct {
	names, groups, files []string // empty: all
	matchers             [][]*labels.Matcher
	kind                 string // "alert", "record", or both
	withoutAlerts        bool
	groupsMax            int // 0: all
	token                string
}

// ruleFilterOf reads a request for rules.
func (h *handler) ruleFilterOf(form url.Values) (f ruleFilter, err error) {
	f = ruleFilter{names: form["rule_name[]"], groups: form["rule_group[]"], files: form["file[]"], kind: strings.ToLower(form.Get("type")), token: form.Get("group_next_token")}
	if texts := form["match[]"]; len(texts) > 0 {
		if _, err := measure(texts...); err != nil {
			return f, badData(err)
		}
		if f.matchers, err = h.parser.ParseMetricSelectors(texts); err != nil {
			return f, badData(err)
		}
	}
	if f.kind != "" && f.kind != "alert" && f.kind != "record" {
		return f, invalidParameter(fmt.Errorf("not supported value %q", f.kind), "type")
	}
	if text := form.Get("exclude_alerts"); text != "" {
		if f.withoutAlerts, err = strconv.ParseBool(strings.ToLower(text)); err != nil {
			return f, invalidParameter(fmt.Errorf("error converting exclude_alerts: %w", err), "exclude_alerts")
		}
	}
	switch limit := form.Get("group_limit"); {
	case limit == "" && f.token != "":
		return f, invalidParameter(errors.New("group_limit needs to be present in order to paginate over the groups"), "group_next_token")
	case limit != "":
		n, err := strconv.ParseInt(limit, 10, 32)
		if err != nil {
			return f, invalidParameter(fmt.Errorf("group_limit needs to be a valid number: %w", err), "group_limit")
		}
		if n <= 0 {
			return f, invalidParameter(errors.New("group_limit needs to be greater than 0"), "group_limit")
		}
		f.groupsMax = int(n)
	}
	return f, nil
}

// rules serves /api/v1/rules.
func (h *handler) rules(x *exchange) error {
	f, err := h.ruleFilterOf(x.form)
	if err != nil {
		return err
	}
	all, err := h.options.Rules.Groups(x.ctx, x.database)
	if err != nil {
		return err
	}
	if f.token != "" {
		first := slices.IndexFunc(all, func(g *rules.Group) bool { return tokenOf(g) == f.token })
		if first < 0 {
			return invalidParameter(fmt.Errorf("invalid group_next_token '%v'. were rule groups changed?", f.token), "group_next_token")
		}
		all = all[first:]
	}
	answer := struct {
		Groups []ruleGroup `json:"groups"`
		Next   string      `json:"groupNextToken,omitempty"`
	}{Groups: []ruleGroup{}}
	for _, g := range all {
		if !wanted(f.groups, g.Name()) || !wanted(f.files, g.File()) {
			continue
		}
		list := f.rulesOf(g)
		if len(list) == 0 {
			continue
		}
		if f.groupsMax > 0 && len(answer.Groups) == f.groupsMax {
			answer.Next = tokenOf(g)
			break
		}
		answer.Groups = append(answer.Groups, ruleGroup{
			Name: g.Name(), File: g.File(), Rules: list, Interval: g.Interval().Seconds(), Limit: g.Limit(),
			EvaluationTime: g.GetEvaluationTime().Seconds(), LastEvaluation: g.GetLastEvaluation(),
		})
	}
	return x.out.value(answer)
}

// wanted reports whether a name is among those asked for, of which none stands for all.
func wanted(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

// tokenOf returns what a client asks for the groups from this one on by.
func tokenOf(g *rules.Group) string {
	sum := sha256.Sum256([]byte(g.File() + ";" + g.Name()))
	return hex.EncodeToString(sum[:])
}

// rulesOf returns the rules of a group that are asked for.
func (f *ruleFilter) rulesOf(g *rules.Group) (list []any) {
	for _, r := range g.Rules(f.matchers...) {
		if !wanted(f.names, r.Name()) {
			continue
		}
		lastError := ""
		if err := r.LastError(); err != nil {
			lastError = err.Error()
		}
		switch r := r.(type) {
		case *rules.AlertingRule:
			if f.kind == "record" {
				continue
			}
			a := alertingRule{
				State: r.State().String(), Name: r.Name(), Query: r.Query().String(), Duration: r.HoldDuration().Seconds(), KeepFiringFor: r.KeepFiringFor().Seconds(),
				Labels: r.Labels(), Annotations: r.Annotations(), Health: r.Health(), LastError: lastError,
				EvaluationTime: r.GetEvaluationDuration().Seconds(), LastEvaluation: r.GetEvaluationTimestamp(), Type: "alerting",
			}
			if !f.withoutAlerts {
				a.Alerts = alertsOf(r)
			}
			list = append(list, a)
		case *rules.RecordingRule:
			if f.kind == "alert" {
				continue
			}
			list = append(list, recordingRule{
				Name: r.Name(), Query: r.Query().String(), Labels: r.Labels(), Health: r.Health(), LastError: lastError,
				EvaluationTime: r.GetEvaluationDuration().Seconds(), LastEvaluation: r.GetEvaluationTimestamp(), Type: "recording",
			})
		}
	}
	return list
}

// alertsOf returns the active alerts of a rule, by their labels.
func alertsOf(r *rules.AlertingRule) []alert {
	active := r.ActiveAlerts()
	slices.SortFunc(active, func(a, b *rules.Alert) int { return labels.Compare(a.Labels, b.Labels) })
	list := make([]alert, len(active))
	for i, a := range active {
		list[i] = alert{Labels: a.Labels, Annotations: a.Annotations, State: a.State.String(), ActiveAt: &a.ActiveAt, Value: strconv.FormatFloat(a.Value, 'e', -1, 64)}
		if !a.KeepFiringSince.IsZero() {
			list[i].KeepFiringSince = &a.KeepFiringSince
		}
	}
	return list
}

// alerts serves /api/v1/alerts.
func (h *handler) alerts(x *exchange) error {
	groups, err := h.options.Rules.Groups(x.ctx, x.database)
	if err != nil {
		return err
	}
	list := []alert{}
	for _, g := range groups {
		for _, r := range g.Rules() {
			if r, ok := r.(*rules.AlertingRule); ok {
				list = append(list, alertsOf(r)...)
			}
		}
	}
	return x.out.value(map[string]any{"alerts": list})
}

// alertmanagers serves /api/v1/alertmanagers.
func (h *handler) alertmanagers(x *exchange) error {
	type target struct {
		URL string `json:"url"`
	}
	active := []target{}
	for _, u := range h.options.Rules.Alertmanagers() {
		active = append(active, target{u})
	}
	return x.out.value(map[string]any{"activeAlertmanagers": active, "droppedAlertmanagers": []any{}})
}
