package rules

import (
	"context"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"

	"github.com/tickmesh/tickmesh/api/access"
)

// What Prometheus has as defaults.
const (
	outageTolerance = time.Hour        // an alert is restored if it was active so recently
	forGracePeriod  = 10 * time.Minute // a restored alert waits at least so long before it fires
	resendDelay     = time.Minute      // an active alert is sent again
)

// host evaluates the rules of one database.
type host struct {
	manager *promrules.Manager
	loader  *loader
}

// loader has managers load what was read and checked.
type loader struct {
	parser parser.Parser
	set    *ruleSet
}

// Load implements promrules.GroupLoader.
func (l *loader) Load(file string, _ bool, _ model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	if groups := l.set.groups[file]; groups != nil {
		return groups, nil
	}
	return nil, []error{errUnknownFile}
}

// Parse implements promrules.GroupLoader.
func (l *loader) Parse(expr string) (parser.Expr, error) { return l.parser.ParseExpr(expr) }

// managerOptions returns what managers of a database have in common: those that evaluate, and mirrors.
func (s *Service) managerOptions(ctx context.Context, database string, engine Engine, l *loader) promrules.ManagerOptions {
	return promrules.ManagerOptions{
		NameValidationScheme: model.UTF8Validation, ExternalURL: s.options.ExternalURL, Context: ctx, GroupLoader: l, Parser: s.parser,
		QueryFunc: func(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
			return engine.Evaluate(ctx, database, expr, at)
		},
		Queryable: engine.Queryable(database), OutageTolerance: outageTolerance, ResendDelay: resendDelay,
		Logger: s.options.Logger.With("database", access.Display(database)),
	}
}

// begin evaluates the rules of all databases until stop. What ctx ends is evaluations that run.
func (s *Service) begin(ctx context.Context, engine Engine, writer Writer) {
	hosts := map[string]*host{}
	for _, database := range s.files.databases() {
		l := &loader{parser: s.parser}
		o := s.managerOptions(ctx, database, engine, l)
		o.NotifyFunc, o.Metrics, o.ForGracePeriod = s.sender.notifier(database), s.metrics[database], forGracePeriod
		o.Queryable = retrying(o.Queryable)
		o.Appendable = &appendable{database: database, writer: writer, final: s.options.Final}
		hosts[database] = &host{promrules.NewManager(&o), l}
		go hosts[database].manager.Run() // until it is stopped
	}
	s.options.Logger.Info("this process evaluates rules", "databases", len(hosts))
	s.mu.Lock()
	s.mu.hosts = hosts
	s.mu.Unlock()
	for database := range hosts {
		s.update(database)
	}
}

// update has the rules of a database evaluated that its files name now. It is called by the goroutine of Run alone.
func (s *Service) update(database string) {
	s.mu.Lock()
	h := s.mu.hosts[database]
	s.mu.Unlock()
	if h == nil {
		return
	}
	h.loader.set = s.files.current(database)
	err := h.manager.Update(s.options.Interval, h.loader.set.files, s.options.ExternalLabels, s.options.ExternalURL.String(), nil)
	if err != nil { // they were checked
		s.options.Logger.Error("BUG: rules that were checked are not loaded", "database", access.Display(database), "error", err)
	}
}

// stop ends the evaluation of rules, if this process evaluates some.
func (s *Service) stop() {
	s.mu.Lock()
	hosts := s.mu.hosts
	s.mu.hosts = nil
	s.mu.Unlock()
	for database, h := range hosts {
		h.manager.Stop()
		resetManagerMetrics(s.metrics[database])
	}
	if hosts != nil {
		s.options.Logger.Info("this process evaluates rules no more")
	}
}
