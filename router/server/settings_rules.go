package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/query/promql"
	"github.com/tickmesh/tickmesh/router/rules"
)

// RuleFlags are the settings of recording and alerting rules.
type RuleFlags struct {
	ruleFiles, alertmanagers, externalLabels []string
	externalURL                              string
	interval                                 settings.Duration
}

// Define defines the flags, below HeadingRules.
func (s *RuleFlags) Define(f *pflag.FlagSet) {
	f.StringSliceVar(&s.ruleFiles, "rules-file", nil, "`[database=]file` of recording and alerting rules as Prometheus has them, or a pattern such as home=rules/*.yaml; repeated for several (default none)")
	f.StringSliceVar(&s.alertmanagers, "alertmanager-url", nil, "`URL` of an Alertmanager that alerts are sent to; repeated for several (default none)")
	s.interval = settings.Duration(rules.IntervalDefault)
	f.Var(&s.interval, "rules-interval", "how often groups of rules are evaluated that say nothing of it")
	f.StringSliceVar(&s.externalLabels, "rules-external-labels", nil, "`name=value` of labels that each alert gets, unless it has them")
	f.StringVar(&s.externalURL, "rules-external-url", "", "`URL` under which people reach this server, for the links of alerts (default http://HOSTNAME:PORT)")
	settings.Group(f, settings.HeadingRules, "rules-file", "alertmanager-url", "rules-interval", "rules-external-labels", "rules-external-url")
}

// Validate refuses what cannot be read, and what means nothing without files of rules.
func (s *RuleFlags) Validate(v *settings.Validation) {
	if len(s.ruleFiles) == 0 && len(s.alertmanagers) > 0 {
		v.Add(errors.New("--alertmanager-url: expected --rules-file, too"))
	}
	if time.Duration(s.interval) < rules.IntervalMin {
		v.Refuse("rules-interval", s.interval.String(), fmt.Sprintf("expected %v or more", rules.IntervalMin))
	}
	for _, text := range s.ruleFiles {
		if _, err := rules.ParsePattern(text); err != nil {
			v.Refuse("rules-file", text, err.Error())
		}
	}
	for _, text := range s.alertmanagers {
		if _, err := rules.ParseURL(text); err != nil {
			v.Add(fmt.Errorf("--alertmanager-url: %w", err)) // without the value, which may have a password
		}
	}
	if _, err := rules.ParseLabels(s.externalLabels); err != nil {
		v.Add(fmt.Errorf("--rules-external-labels: %w", err))
	}
	if s.externalURL != "" {
		if _, err := rules.ParseURL(s.externalURL); err != nil {
			v.Refuse("rules-external-url", s.externalURL, err.Error())
		}
	}
}

// openRules reads the files of rules, whose expressions are in language; nil: none are named. Here is the URL of this server, as far
// as it knows.
func (s *RuleFlags) openRules(b *Backend, here string, language parser.Options, registry *process.Registry, logger *slog.Logger) (*rules.Service, error) {
	if len(s.ruleFiles) == 0 {
		return nil, nil
	}
	o := rules.Options{
		Measure: promql.Measure, Parser: language, Interval: time.Duration(s.interval), Campaign: b.campaign(shardmap.ElectionRules), Logger: logger, Registerer: registry,
		Final: func(err error) bool { return errors.Is(err, ingest.ErrRefused) },
	}
	for _, text := range s.ruleFiles {
		p, err := rules.ParsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("--rules-file: %w", err)
		}
		o.Patterns = append(o.Patterns, p)
	}
	for _, text := range s.alertmanagers {
		u, err := rules.ParseURL(text)
		if err != nil {
			return nil, fmt.Errorf("--alertmanager-url: %w", err)
		}
		o.Alertmanagers = append(o.Alertmanagers, u)
	}
	var err error
	if o.ExternalLabels, err = rules.ParseLabels(s.externalLabels); err != nil {
		return nil, fmt.Errorf("--rules-external-labels: %w", err)
	}
	if o.ExternalURL, err = url.Parse(cmp.Or(s.externalURL, here)); err != nil {
		return nil, fmt.Errorf("--rules-external-url: %w", err)
	}
	service, err := rules.New(o)
	if err != nil {
		return nil, fmt.Errorf("--rules-file: %w", err)
	}
	return service, nil
}
