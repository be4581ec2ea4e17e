package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/limitedlog"
)

// Server is the set of listeners. Its life is New, Start, Shutdown, each once.
type Server struct {
	options *Options
	host    string
	metrics *metrics
	budgets Budgets
	workers *workers
	front   *front
	streams *streams
	base    context.Context
	cancel  context.CancelCauseFunc

	listeners [portUDP]*listener // nil where there is none
	udp       *datagrams
	udpEnded  chan struct{}

	mu struct {
		sync.Mutex
		state serverState
	}
}

type serverState uint8

const (
	stateNew serverState = iota
	stateStarted
	stateStopped
)

// ErrState marks a call out of order.
var ErrState = errors.New("ingest server: call out of order")

// ErrAbandoned marks that Shutdown has returned while requests were running.
var ErrAbandoned = errors.New("requests did not end when they were canceled, and are not waited for")

// abandonAfter is how long requests have to see that their context has ended.
const abandonAfter = 250 * time.Millisecond

var errStopped = fmt.Errorf("the server has stopped: %w", context.Canceled)

// New checks the options; errors are ErrOptions.
func New(o Options) (*Server, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Server{options: &o, udpEnded: make(chan struct{})}
	if host, err := os.Hostname(); err == nil {
		s.host = host
	} else {
		s.host = "unknown"
	}
	if s.budgets = o.Budgets; s.budgets.Writes == nil || s.budgets.Reads == nil {
		s.budgets = NewBudgets(o.Limits)
	}
	s.metrics = newMetrics(s.budgets.Writes, newFailures(o.Logger, o.Clock))
	s.base, s.cancel = context.WithCancelCause(context.Background())
	var err error
	if s.workers, err = newWorkers(s.base, &o); err != nil {
		s.cancel(errStopped)
		return nil, err
	}
	if err := s.metrics.register(o.Registerer); err != nil {
		s.cancel(errStopped)
		return nil, err
	}
	s.front = newFront(s.base, &o, s.workers, s.metrics, s.budgets)
	targets, err := o.targets()
	if err != nil {
		s.cancel(errStopped)
		return nil, err
	}
	s.streams = &streams{
		targets: targets,
		base:    s.base, options: &o, workers: s.workers, metrics: s.metrics, front: s.front,
		budget:  s.budgets.Writes,
		waiting: &waiting{bytesMax: o.Limits.WaitingBytesMax},
		log:     &limitedlog.Log{Logger: o.Logger, Clock: o.Clock}, stats: s.statLines,
	}
	return s, nil
}

// BytesBeside returns what is held beside Budgets.Writes: by lines and replies that wait on TCP,
// and to be used again.
func (s *Server) BytesBeside() int64 { return s.streams.waiting.used.Load() + s.workers.bytesKept() }

// Start binds every listener, then serves. On an error nothing is left open.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state != stateNew {
		return ErrState
	}
	if err := s.bind(); err != nil {
		for _, l := range s.listeners {
			if l != nil {
				_ = l.socket.Close()
			}
		}
		return err
	}
	s.mu.state = stateStarted
	s.front.asked.start()
	for _, l := range s.listeners {
		if l != nil {
			l.start()
			s.options.Logger.Info("listening", "port", portNames[l.port], "address", l.socket.Addr().String())
		}
	}
	if s.udp == nil {
		close(s.udpEnded)
		return nil
	}
	s.options.Logger.Info("listening", "port", portNames[portUDP], "address", s.udp.socket.LocalAddr().String())
	go func() {
		defer close(s.udpEnded)
		s.udp.run()
	}()
	return nil
}

func (s *Server) bind() error {
	addresses := [portUDP]string{s.options.HTTPAddress, s.options.PutAddress, s.options.LineAddress, s.options.GraphiteAddress}
	serve := [portUDP]func(*conn){
		s.front.serveConn,
		func(c *conn) { s.streams.serve(c, protocolPutTCP) },
		func(c *conn) { s.streams.serve(c, protocolLineTCP) },
		func(c *conn) { s.streams.serve(c, protocolGraphiteTCP) },
	}
	refusals := [portUDP]string{
		refusalHTTP,
		"put: Please throttle writes: too many connections\n",
		"too many connections\n",
		"too many connections\n",
	}
	for p, address := range addresses {
		if address == "" {
			continue
		}
		l, err := listen(port(p), address, s.options, s.metrics)
		if err != nil {
			return err
		}
		l.serve, l.refusal = serve[p], []byte(refusals[p])
		s.listeners[p] = l
	}
	s.front.elsewhere = s.elsewhere()
	if s.options.UDPAddress == "" {
		return nil
	}
	var err error
	s.udp, err = listenUDP(s.options.UDPAddress, s.streams)
	return err
}

// elsewhere names the other ports to who takes this one for another.
func (s *Server) elsewhere() string {
	text := ""
	if put := s.Addresses().Put; put != nil {
		text = fmt.Sprintf("; put lines go to TCP port %d", put.(*net.TCPAddr).Port)
	}
	if line := s.Addresses().Line; line != nil {
		text += fmt.Sprintf("; line protocol goes to TCP port %d", line.(*net.TCPAddr).Port)
	}
	if graphite := s.Addresses().Graphite; graphite != nil {
		text += fmt.Sprintf("; Graphite's lines and pickles go to TCP port %d", graphite.(*net.TCPAddr).Port)
	}
	return text
}

const refusalBody = `{"error":{"code":503,"message":"Too many connections","details":"The server is at its limit of connections"}}`

//nolint:gochecknoglobals // a constant text with a computed length
var refusalHTTP = fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nRetry-After: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
	contentJSON, retryAfterSeconds, len(refusalBody), refusalBody)

// Addresses are where a started server listens; nil where it does not.
type Addresses struct{ HTTP, Put, Line, Graphite, UDP net.Addr }

// Addresses returns where the server listens. It must have been started.
func (s *Server) Addresses() Addresses {
	var all [ports]net.Addr
	for p, l := range s.listeners {
		if l != nil {
			all[p] = l.socket.Addr()
		}
	}
	if s.udp != nil {
		all[portUDP] = s.udp.socket.LocalAddr()
	}
	return Addresses{HTTP: all[portHTTP], Put: all[portPut], Line: all[portLine], Graphite: all[portGraphite], UDP: all[portUDP]}
}

// Shutdown drains: it stops accepting, closes idle connections, lets requests
// finish, and writes what TCP connections have sent already. When ctx ends, the
// contexts of the requests that are left end and their connections are closed;
// the error says how many. It returns after the last Write and handler have, or
// abandonAfter later with ErrAbandoned: what does not look at its context is not waited for.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	state := s.mu.state
	s.mu.state = stateStopped
	s.mu.Unlock()
	switch state {
	case stateStopped:
		return ErrState
	case stateNew:
		s.stop()
		return nil
	}
	s.front.draining.Store(true)
	for _, l := range s.listeners {
		if l != nil {
			l.drain()
		}
	}
	if s.udp != nil {
		_ = s.udp.socket.SetReadDeadline(time.Unix(1, 0))
	}
	abandon, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		s.cancel(errStopped)
		time.AfterFunc(abandonAfter, cancel)
	})
	defer stop()
	var failed []error
	for _, l := range s.listeners {
		if l != nil {
			failed = append(failed, l.wait(ctx, abandon))
		}
	}
	if s.udp != nil {
		failed = append(failed, s.udp.wait(ctx, abandon, s.udpEnded))
	}
	s.stop()
	return errors.Join(failed...)
}

func (s *Server) stop() {
	s.cancel(errStopped)
	s.workers.close()
	_ = s.front.asked.server.Close()
	s.options.Registerer.Unregister(s.metrics)
}
