package rules

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"

	"github.com/tickmesh/tickmesh/api/rulefile"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/election"
)

// IntervalDefault is how often groups are evaluated that say nothing of it, as in Prometheus.
const IntervalDefault = time.Minute

// Engine evaluates expressions over the series of databases. Its methods are safe for concurrent use.
type Engine interface {
	Evaluate(ctx context.Context, database, expr string, at time.Time) (promql.Vector, error)
	// Queryable returns what alerts are restored from.
	Queryable(database string) storage.Queryable
}

// Options of a Service. Patterns are required; every other field has a default.
type Options struct {
	Patterns       []Pattern
	Interval       time.Duration // of groups that have none; default IntervalDefault
	ExternalLabels labels.Labels // of alerts that are sent, and in templates
	ExternalURL    *url.URL      // that links to this server begin with; default none
	Alertmanagers  []*url.URL
	Transport      http.RoundTripper // to Alertmanagers; nil: http.DefaultTransport
	// Measure refuses an expression that would cost too much to parse. Nil: none is refused.
	Measure func(expr string) error
	// Parser is what expressions are written in; its zero value: PromQL as it is by default.
	Parser parser.Options
	// Final reports whether an error of Writer stays however often it is tried. Nil: all do.
	Final func(error) bool
	// Campaign waits until this process is to evaluate rules. Nil: it always is.
	Campaign func(context.Context) (shardmap.Leadership, error)

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not registered
}

// Service evaluates rules while it is elected. It is safe for concurrent use, and a prometheus.Collector.
type Service struct {
	options   Options
	parser    parser.Parser
	files     *files
	sender    *sender
	metrics   map[string]*promrules.Metrics // by database
	described descriptions
	mirrors   map[string]*mirror // by database

	mu struct {
		sync.Mutex
		// begin runs work beside others until Run ends; nil: Run has not begun, or ends.
		begin func(func(context.Context, Engine))
		hosts map[string]*host // by database; nil: another process evaluates
	}
}

// New reads the files. Errors: ErrFiles.
func New(o Options) (*Service, error) {
	o.setDefaults()
	s := &Service{options: o, parser: measured{parser.NewParser(o.Parser), o.Measure}, sender: newSender(&o), metrics: map[string]*promrules.Metrics{}, described: newDescriptions(), mirrors: map[string]*mirror{}}
	var err error
	if s.files, err = openFiles(o.Patterns, s.parser, o.Logger); err != nil {
		return nil, err
	}
	for _, database := range s.files.databases() {
		s.metrics[database] = newManagerMetrics(o.Registerer, database)
		s.mirrors[database] = &mirror{service: s, database: database}
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(s)
	}
	return s, nil
}

func (o *Options) setDefaults() {
	if o.Interval <= 0 {
		o.Interval = IntervalDefault
	}
	if o.ExternalURL == nil {
		o.ExternalURL = &url.URL{}
	}
	if o.Measure == nil {
		o.Measure = func(string) error { return nil }
	}
	if o.Final == nil {
		o.Final = func(error) bool { return true }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Alertmanagers returns where alerts are sent to, without credentials.
func (s *Service) Alertmanagers() (urls []string) {
	for _, t := range s.sender.targets {
		urls = append(urls, t.name)
	}
	return urls
}

// Groups returns the groups of a database by file and name, as they are here or, where another process evaluates them,
// as they would be.
func (s *Service) Groups(ctx context.Context, database string) ([]*promrules.Group, error) {
	set := s.files.current(database)
	if set == nil {
		return nil, nil
	}
	s.mu.Lock()
	h := s.mu.hosts[database]
	s.mu.Unlock()
	if h != nil {
		return h.manager.RuleGroups(), nil
	}
	return s.mirrors[database].groups(ctx, set)
}

// goOn runs work that ends with the context that it gets, and reports whether it does: not before Run, and not after.
func (s *Service) goOn(work func(context.Context, Engine)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.begin == nil {
		return false
	}
	s.mu.begin(work)
	return true
}

func (s *Service) setBegin(begin func(func(context.Context, Engine))) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.begin = begin
}

func (s *Service) evaluating() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.hosts != nil
}

// Run evaluates rules until ctx ends, whenever this process is elected, and follows the files.
func (s *Service) Run(ctx context.Context, engine Engine, writer Writer) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer s.setBegin(nil)
	defer cancel()
	s.setBegin(func(work func(context.Context, Engine)) { running.Go(func() { work(ctx, engine) }) })
	terms := make(chan context.Context)
	running.Go(func() { s.sender.run(ctx) })
	running.Go(func() { s.campaign(ctx, terms) })
	ticker := time.NewTicker(rulefile.ReadInterval)
	defer ticker.Stop()
	defer s.stop()
	for {
		select {
		case <-ctx.Done():
			return
		case term := <-terms:
			s.stop()
			if term != nil {
				s.begin(term, engine, writer)
			}
		case <-ticker.C:
			for _, database := range s.files.check() {
				s.update(database)
			}
		}
	}
}

// campaign sends the contexts of the terms of this process as they begin, and nil when one has ended. A term's context
// ends at once, whatever who gets it is doing.
func (s *Service) campaign(ctx context.Context, terms chan<- context.Context) {
	tell := func(term context.Context) {
		select {
		case terms <- term:
		case <-ctx.Done():
		}
	}
	election.Hold(ctx, s.options.Campaign, func(term context.Context) {
		tell(term)
		<-term.Done()
		tell(nil)
	})
}
