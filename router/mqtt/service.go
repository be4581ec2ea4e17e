package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/rulefile"
)

// Options of a Service. Path, Writer and Memory are required.
type Options struct {
	Path   string // of the file of connections
	Parser Parser
	Writer Writer
	Memory *budget.Pool // that messages are charged to until they are written

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not registered
}

// Service keeps the connections that a file names, and follows its changes. It is a prometheus.Collector.
type Service struct {
	options   Options
	file      *rulefile.File[*File]
	described descriptions

	mu struct {
		sync.Mutex
		counts map[string]*counts // by the name of a connection; those that the file has named once stay
	}
}

// namesMax bounds the names that are remembered for metrics.
const namesMax = 16 * connectionsMax

// New reads the file. Errors: those of reading, and rulefile.ErrFile.
func New(o Options) (*Service, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	file, err := rulefile.Open(rulefile.Options{Kind: "mqtt", Path: o.Path, Logger: o.Logger}, o.Parser.Parse)
	if err != nil {
		return nil, err
	}
	s := &Service{options: o, file: file, described: newDescriptions()}
	s.mu.counts = map[string]*counts{}
	for _, c := range file.Current().connections {
		s.countsOf(c.name)
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(s); err != nil {
			return nil, fmt.Errorf("metrics of MQTT: %w", err)
		}
	}
	return s, nil
}

func (s *Service) allCounts() map[string]*counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.mu.counts)
}

// countsOf returns the figures of a name. Of very many names over time the earliest are forgotten all at once.
func (s *Service) countsOf(name string) *counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mu.counts[name]
	if c == nil {
		if len(s.mu.counts) >= namesMax {
			clear(s.mu.counts)
		}
		c = &counts{}
		s.mu.counts[name] = c
	}
	return c
}

// running is a connection that is kept.
type running struct {
	connection *connection
	stop       context.CancelCauseFunc
	ended      chan struct{}
}

// Run keeps the connections until ctx ends, when each has left the broker.
func (s *Service) Run(ctx context.Context) {
	changes := make(chan *File, 1)
	s.file.OnChange(func(f *File) {
		select {
		case <-changes: // only the newest counts
		default:
		}
		changes <- f
	})
	var following sync.WaitGroup
	following.Go(func() { s.file.Run(ctx) })
	all := map[string]*running{}
	for ctx.Err() == nil {
		select {
		case f := <-changes:
			s.apply(ctx, all, f)
		case <-ctx.Done():
		}
	}
	for _, r := range all {
		<-r.ended
	}
	following.Wait()
}

// apply ends connections that the file names no more or otherwise, and begins those that are new.
func (s *Service) apply(ctx context.Context, all map[string]*running, f *File) {
	wanted := map[string]*connection{}
	for _, c := range f.connections {
		wanted[c.name] = c
	}
	earlier := map[string]*connection{}
	for name, r := range all {
		next := wanted[name]
		if next != nil && reflect.DeepEqual(next, r.connection) {
			continue
		}
		cause := errRemoved
		if next != nil && r.connection.sameSession(next) {
			cause, earlier[name] = errChanged, r.connection
		}
		r.stop(cause)
		<-r.ended
		delete(all, name)
	}
	for name, c := range wanted {
		if all[name] == nil {
			all[name] = s.begin(ctx, c, earlier[name])
		}
	}
}

// errChanged is why a connection ends that goes on with the same session at the broker.
var errChanged = errors.New("the file has changed")

// sameSession reports whether the broker may know another connection's client as this one's: it knows it by its id. Where it does,
// what the session holds comes again; a session that ends takes it along.
func (c *connection) sameSession(other *connection) bool {
	return c.clientID == other.clientID && slices.ContainsFunc(c.urls, func(u *url.URL) bool {
		return slices.ContainsFunc(other.urls, func(o *url.URL) bool { return u.Hostname() == o.Hostname() })
	})
}

// begin connects. Earlier is what the session of the broker knows; nil: nothing.
func (s *Service) begin(ctx context.Context, c, earlier *connection) *running {
	ctx, stop := context.WithCancelCause(ctx)
	r := &running{connection: c, stop: stop, ended: make(chan struct{})}
	k := newClient(c, &s.options, s.countsOf(c.name), c.obsolete(earlier))
	go func() {
		defer close(r.ended)
		defer stop(nil)
		k.run(ctx)
	}()
	return r
}

// obsolete returns the filters that an earlier connection of the session has and this one has not.
func (c *connection) obsolete(earlier *connection) (filters []string) {
	if earlier == nil {
		return nil
	}
	for _, s := range earlier.subscriptions {
		filter := earlier.filterOf(s)
		if !slices.ContainsFunc(c.subscriptions, func(own *subscription) bool { return c.filterOf(own) == filter }) {
			filters = append(filters, filter)
		}
	}
	return filters
}
