package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	meshclient "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/e2e/auditor"
	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// load is what writes to a cluster through its Service, and so through Envoy, for as
// long as a test goes on: the auditor by HTTP, with overwrites and deletes, and
// journals for each other protocol.
type load struct {
	rack      *lab.Rack
	client    *http.Client
	address   atomic.Pointer[string] // of the Service
	audit     *auditor.Audit
	protocols []*protocol
	alone     []*protocol // of one client each
	before    totals      // at the last lap
}

// totals are counts since the start.
type totals struct {
	samples int64  // acknowledged
	failed  int64  // requests, whatever they wanted
	last    string // of what failed, by each protocol
}

// lap is what a phase cost its clients.
type lap struct {
	totals
	writePause, queryPause pause   // the longest without an answer to any of the clients of one protocol
	alonePauses            []pause // the same of the one client of each protocol that is alone
	failedInRow            int     // requests of one client, at most
}

// bounds are what clients may meet that try again, while anything happens to a cluster that leaves
// it a majority. What was measured is in doc.go.
type bounds struct {
	pause       time.Duration // without an answer to any client of one protocol
	failedInRow int           // requests of one client: after so many the retry is served
	firstQuery  time.Duration // from helm install to its answer, with images that the machines have
}

// boundsOf returns the bounds. The short form decides about changes, also on a machine that has
// other work, so that it is held to three times as much: enough to find a wedge, or a
// fail-over that does not happen.
func boundsOf(short bool) bounds {
	b := bounds{pause: 2 * time.Second, failedInRow: 1, firstQuery: time.Minute}
	if short {
		b = bounds{pause: 3 * b.pause, failedInRow: 3 * b.failedInRow, firstQuery: 3 * b.firstQuery}
	}
	return b
}

// check reports what clients met that they must not, where more is how much longer a pause may be for what is not the product's part.
func (b *bounds) check(l *lap, more time.Duration) error {
	allowed := b.pause + more
	var broken []error
	for what, p := range map[string]pause{"write": l.writePause, "query": l.queryPause} {
		if p.Duration > allowed {
			broken = append(broken, fmt.Errorf("no %s by %s was answered for %s, and may be for %s at most", what, p.who, p.Round(time.Millisecond), allowed))
		}
	}
	for _, p := range l.alonePauses {
		if p.Duration > allowed {
			broken = append(broken, fmt.Errorf("one client of %s was not answered for %s, and may be for %s at most", p.who, p.Round(time.Millisecond), allowed))
		}
	}
	if l.failedInRow > b.failedInRow {
		broken = append(broken, fmt.Errorf("%d requests of one client failed after each other, and may be %d at most", l.failedInRow, b.failedInRow))
	}
	return errors.Join(broken...)
}

// pause is a time without an answer.
type pause struct {
	time.Duration
	who string // protocol
}

// longer returns the longer one of two pauses.
func (p pause) longer(other pause) pause {
	if other.Duration > p.Duration {
		return other
	}
	return p
}

func (p pause) String() string { return fmt.Sprintf("%6.1f s %-4s", p.Seconds(), p.who) }

// Ports of the Service.
const (
	portLine = 6180
	portPut  = 6181
	portHTTP = 6182
	portGRPC = 6183
)

// findDoor looks for the Service's address.
func (l *load) findDoor(ctx context.Context) error {
	address, err := l.rack.Kubectl(ctx, "--namespace="+namespace, "get", "service/demo", "--output=jsonpath={.spec.clusterIP}")
	if err == nil && net.ParseIP(address) == nil {
		err = fmt.Errorf("the Service has the address %q", address)
	}
	if err != nil {
		return err
	}
	l.address.Store(&address)
	return nil
}

// door returns the Service's address with a port.
func (l *load) door(port int) string { return net.JoinHostPort(*l.address.Load(), fmt.Sprint(port)) }

// Routers implements auditor.Target.
func (l *load) Routers() []string { return []string{l.door(portHTTP)} }

// startLoad begins to write. Stop ends it.
func startLoad(ctx context.Context, r *lab.Rack) (*load, error) {
	l := &load{rack: r, client: client(r)}
	if err := l.findDoor(ctx); err != nil {
		return nil, err
	}
	config := auditor.DefaultConfig()
	config.Writers, config.Readers, config.Series = 4, clientsEach, 8
	config.WriteEvery, config.ReadEvery = 133*time.Millisecond, clientsEach*200*time.Millisecond
	config.Dial = dial
	running := context.WithoutCancel(ctx) // the phase ends before
	audit, err := auditor.Start(running, config, l)
	if err != nil {
		return nil, err
	}
	l.audit = audit
	dialPort := func(port int) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) { return dial(ctx, "tcp", l.door(port)) }
	}
	grpcOptions := meshclient.Options{Endpoints: []string{l.door(portGRPC)}, WriteTimeout: sendTime}
	for _, spoken := range []struct {
		name      string
		clients   int
		into      *[]*protocol
		newSender func(metric string) (sender, error)
	}{
		{"put", clientsEach, &l.protocols, func(metric string) (sender, error) {
			return newPutSender(metric, batchesOfConnection, dialPort(portPut)), nil
		}},
		{"line", clientsEach, &l.protocols, func(metric string) (sender, error) {
			return newLineSender(metric, batchesOfConnection, dialPort(portLine)), nil
		}},
		{"grpc", clientsEach, &l.protocols, func(metric string) (sender, error) { return newClientSender(metric, grpcOptions) }},
		// The auditor's clients of HTTP are several.
		{"http alone", 1, &l.alone, func(metric string) (sender, error) {
			return newHTTPSender(metric, func() string { return "http://" + l.door(portHTTP) + "/api/put" }), nil
		}},
		{"put alone", 1, &l.alone, func(metric string) (sender, error) { return newPutSender(metric, 0, dialPort(portPut)), nil }},
		{"line alone", 1, &l.alone, func(metric string) (sender, error) { return newLineSender(metric, 0, dialPort(portLine)), nil }},
		{"grpc alone", 1, &l.alone, func(metric string) (sender, error) { return newClientSender(metric, grpcOptions) }},
	} {
		p, err := startProtocol(running, spoken.name, spoken.clients, spoken.newSender)
		if err != nil {
			_ = l.stop()
			return nil, err
		}
		*spoken.into = append(*spoken.into, p)
	}
	return l, nil
}

// journals returns those of all protocols.
func (l *load) journals() (all []*journal) {
	for _, p := range slices.Concat(l.protocols, l.alone) {
		all = append(all, p.journals...)
	}
	return all
}

// stop ends all clients, and returns what the auditor found. What was written can still
// be checked.
func (l *load) stop() error {
	for _, j := range l.journals() {
		j.end()
	}
	_, err := l.audit.Stop()
	return err
}

// progress waits until every client was answered again.
func (l *load) progress(ctx context.Context) error {
	journals := l.journals()
	errs := make(chan error, len(journals)+1)
	go func() { errs <- l.audit.Progress(ctx) }()
	for _, j := range journals {
		go func() { errs <- j.grows(ctx, 2*journalBatch) }()
	}
	var all []error
	for range cap(errs) {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// check reads everything back and compares.
func (l *load) check(ctx context.Context) error {
	if err := l.audit.Check(ctx); err != nil {
		return err
	}
	for _, j := range l.journals() {
		if err := j.check(ctx, l.client, "http://"+l.door(portHTTP)); err != nil {
			return err
		}
	}
	return nil
}

// totals counts since the start.
func (l *load) totals() totals {
	report := l.audit.Report()
	t := totals{samples: report.Samples, failed: report.Refusals + report.Unanswered + report.QueryErrors + report.QueriesLost}
	if report.LastFailure != "" {
		t.last = "\n    the last so far by http: " + report.LastFailure
	}
	for _, j := range l.journals() {
		acknowledged, failed, last := j.state()
		t.samples += int64(acknowledged)
		t.failed += int64(failed)
		if last != nil {
			t.last += fmt.Sprintf("\n    the last so far of %s: %v", j.metric, last)
		}
	}
	return t
}

// lap returns what there was since its last call.
func (l *load) lap() lap {
	now := l.totals()
	this := lap{totals: totals{samples: now.samples - l.before.samples, failed: now.failed - l.before.failed}}
	if this.failed > 0 {
		this.last = now.last
	}
	l.before = now
	audited := l.audit.Lap()
	this.writePause, this.queryPause, this.failedInRow = pause{audited.WriteGap, "http"}, pause{audited.QueryGap, "http"}, audited.FailedInRow
	for _, p := range l.protocols {
		this.writePause = this.writePause.longer(pause{p.gap.lap(), p.name})
	}
	for _, p := range l.alone {
		this.alonePauses = append(this.alonePauses, pause{p.gap.lap(), strings.TrimSuffix(p.name, " alone")})
	}
	for _, j := range l.journals() {
		this.failedInRow = max(this.failedInRow, j.lap())
	}
	return this
}

// describe returns how each client fared.
func (l *load) describe() string {
	var text strings.Builder
	fmt.Fprintf(&text, "auditor: %s\n", l.audit.Report())
	for _, j := range l.journals() {
		acknowledged, failed, last := j.state()
		fmt.Fprintf(&text, "%s: %d samples acknowledged, %d batches failed", j.metric, acknowledged, failed)
		if last != nil {
			fmt.Fprintf(&text, ", the last: %v", last)
		}
		text.WriteByte('\n')
	}
	return text.String()
}
