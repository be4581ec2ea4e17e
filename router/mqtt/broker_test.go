package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/prompb"

	"github.com/tickmesh/tickmesh/api/budget"
)

// testBroker is a broker that may be closed twice.
type testBroker struct {
	*broker.Server
	closing sync.Once
}

func (b *testBroker) close() { b.closing.Do(func() { _ = b.Close() }) }

// startBroker starts a real broker on the loopback. Address may be "", for any port.
func startBroker(t *testing.T, address string, secure *tls.Config, hooks ...func(*broker.Server) error) *testBroker {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	s := broker.New(&broker.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)})
	if len(hooks) == 0 {
		hooks = append(hooks, func(s *broker.Server) error { return s.AddHook(&auth.AllowHook{}, nil) })
	}
	for _, hook := range hooks {
		if err := hook(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddListener(listeners.NewNet("tcp", listener)); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	b := &testBroker{Server: s}
	t.Cleanup(b.close)
	return b
}

// addressOf returns where a broker listens.
func addressOf(t *testing.T, s *testBroker) string {
	t.Helper()
	l, ok := s.Listeners.Get("tcp")
	if !ok {
		t.Fatal("no listener")
	}
	return l.Address()
}

func publish(t *testing.T, s *testBroker, topic, payload string) {
	t.Helper()
	if err := s.Publish(topic, []byte(payload), false, 1); err != nil {
		t.Fatal(err)
	}
}

// unacknowledged returns how many messages the broker keeps for a client.
func unacknowledged(s *testBroker, client string) int {
	c, ok := s.Clients.Get(client)
	if !ok {
		return 0
	}
	return c.State.Inflight.Len()
}

// storage is a Writer that keeps samples as texts, read by Prometheus' own code. Hook may refuse a write, or hold it up.
type storage struct {
	mu      sync.Mutex
	samples map[string]int // how often each was written
	hook    func(ctx context.Context, database string) error
}

func (s *storage) setHook(hook func(context.Context, string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *storage) WriteMQTT(ctx context.Context, database string, request []byte) error {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, database); err != nil {
			return err
		}
	}
	texts, err := textsOf(database, request)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		s.samples[text]++
	}
	return nil
}

// textsOf reads a WriteRequest.
func textsOf(database string, request []byte) (all []string, err error) {
	var r prompb.WriteRequest
	if err := r.Unmarshal(request); err != nil {
		return nil, err
	}
	for _, series := range r.Timeseries {
		name := ""
		var labels []string
		for _, l := range series.Labels {
			if l.Name == "__name__" {
				name = l.Value
			} else {
				labels = append(labels, l.Name+"="+l.Value)
			}
		}
		slices.Sort(labels)
		for _, sample := range series.Samples {
			all = append(all, fmt.Sprintf("%s %s{%s} %v @%d", database, name, strings.Join(labels, ","), sample.Value, sample.Timestamp))
		}
	}
	return all, nil
}

// stored returns the samples, without times if those are of arrival.
func (s *storage) stored() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.samples))
}

// untimed returns the samples without their times, and how often each came.
func (s *storage) untimed() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int{}
	for text, n := range s.samples {
		before, _, _ := strings.Cut(text, " @")
		all[before] += n
	}
	return all
}

// lab is a service with its file and storage.
type lab struct {
	*storage
	service  *Service
	path     string
	registry *prometheus.Registry
	memory   *budget.Pool
	log      *lockedText
	stop     func() // waits, too
}

type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startLab runs a service with a file. Storage may be that of an earlier one.
func startLab(t *testing.T, file string, to *storage, memoryBytes int64) *lab {
	t.Helper()
	if to == nil {
		to = &storage{samples: map[string]int{}}
	}
	l := &lab{storage: to, path: filepath.Join(t.TempDir(), "mqtt.yaml"), registry: prometheus.NewRegistry(), memory: budget.New(memoryBytes, time.Second), log: &lockedText{}}
	l.write(t, file)
	var err error
	l.service, err = New(Options{Path: l.path, Writer: to, Memory: l.memory, Registerer: l.registry, Logger: slog.New(slog.NewTextHandler(l.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.service.Run(ctx) }()
	l.stop = func() { cancel(); <-ended }
	t.Cleanup(l.stop)
	return l
}

func (l *lab) write(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(l.path+".new", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(l.path+".new", l.path); err != nil {
		t.Fatal(err)
	}
}

// metric returns the sum of a metric's series that have a label's value; "": all.
func (l *lab) metric(t *testing.T, name, value string) (sum float64) {
	t.Helper()
	families, err := l.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "tickmesh_mqtt_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			if value != "" && !slices.ContainsFunc(m.GetLabel(), func(p *dto.LabelPair) bool { return p.GetValue() == value }) {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// waitFor waits until something holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

func (l *lab) waitConnected(t *testing.T) {
	t.Helper()
	waitFor(t, "connected", func() bool { return l.metric(t, "connected", "") == 1 })
}

var errOutage = errors.New("storage is away")

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
