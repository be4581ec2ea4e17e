package ingest

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// protocol is a way in, as the metrics name it.
type protocol uint8

const (
	protocolPutHTTP protocol = iota
	protocolInflux1
	protocolInflux2
	protocolTickTock
	protocolRemoteWrite
	protocolImport
	protocolImportCSV
	protocolImportPrometheus
	protocolOTLP
	protocolOTLPGRPC
	protocolPutTCP
	protocolLineTCP
	protocolGraphiteTCP
	protocolUDP
	protocolRules
	protocolMQTT
	protocolSelectInto
	protocols
)

var protocolNames = [protocols]string{ //nolint:gochecknoglobals // a constant table
	"http_put", "http_influx1", "http_influx2", "http_ticktock", "http_remote_write", "http_import", "http_import_csv", "http_import_prometheus", "http_otlp", "grpc_otlp", "tcp_put", "tcp_line", "tcp_graphite", "udp", "rules", "mqtt", "select_into",
}

// dropCause describes why data was thrown away that nobody will send again.
type dropCause uint8

const (
	dropWrite    dropCause = iota // points of a chunk or of datagrams, after all retries
	dropRate                      // points of datagrams beyond their database's rate
	dropDenied                    // points that the user of a port may not write any more
	dropReply                     // reply bytes for a client that does not read
	dropDatagram                  // datagrams that the kernel had no room for
	dropUnended                   // lines of TCP connections that ended before the line did
	dropCauses
)

var dropNames = [dropCauses][2]string{ //nolint:gochecknoglobals // a constant table
	{"write", "points"}, {"rate", "points"}, {"denied", "points"}, {"slow_reader", "reply_bytes"}, {"kernel", "datagrams"},
	{"unended", "lines"},
}

// protocolMetrics count one way in. The four kinds of points add up to the
// points that were read.
type protocolMetrics struct {
	accepted, refused, skipped, failed atomic.Int64
	bytes                              atomic.Int64 // as sent
	seconds                            prometheus.Observer
}

// count counts what became of the points of one request or chunk.
func (p *protocolMetrics) count(r result) {
	p.accepted.Add(int64(r.accepted))
	if r.refused|r.skipped|r.failed != 0 {
		p.refused.Add(int64(r.refused))
		p.skipped.Add(int64(r.skipped))
		p.failed.Add(int64(r.failed))
	}
}

// The ports, as the metrics and the log name them.
type port uint8

const (
	portHTTP port = iota
	portPut
	portLine
	portGraphite
	portUDP
	ports
)

var portNames = [ports]string{"http", "put", "line", "graphite", "udp"} //nolint:gochecknoglobals // a constant table

type portMetrics struct{ open, accepted, refused, unsafe atomic.Int64 }

// metrics are a server's counters. It is a prometheus.Collector.
type metrics struct {
	protocols [protocols]protocolMetrics
	ports     [ports]portMetrics
	drops     [dropCauses]atomic.Int64
	exemplars [exemplarOutcomes]atomic.Int64
	native    atomic.Int64 // histograms that were refused
	failures  *failures
	codes     [600]atomic.Int64 // HTTP answers by status
	writes    *budget.Pool
	seconds   *prometheus.HistogramVec
	described metricDescriptions
}

type metricDescriptions struct {
	points, exemplars, native, bytes, connections, connectionsTotal, drops, errors, requests, inFlight *prometheus.Desc
}

func newMetrics(writes *budget.Pool, failures *failures) *metrics {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tickmesh_ingest_"+name, help, labels, nil)
	}
	m := &metrics{writes: writes, failures: failures, described: metricDescriptions{
		points:           describe("points_total", "Points read, by what became of them; the outcomes add up to the points read.", "protocol", "outcome"),
		exemplars:        describe("exemplars_total", "Exemplars read, by what became of them. Those that were kept are also those that were there already; refused are those of no series, with labels that are not allowed, or not wanted.", "outcome"),
		native:           describe("native_histograms_refused_total", "Native histograms of remote writes, which are not stored: the answer names the remedy. They are among the refused points, too."),
		bytes:            describe("bytes_total", "Bytes of bodies, chunks and datagrams, as sent.", "protocol"),
		connections:      describe("connections", "Open connections.", "port"),
		connectionsTotal: describe("connections_total", "Connections that arrived.", "port", "outcome"),
		drops:            describe("dropped_total", "What was thrown away that nobody sends again.", "cause", "unit"),
		errors:           describe("write_errors_total", "Writes of which not all was taken, by the kind of the error; TCP and UDP try again. Kinds memory to sign_ins are of requests of which nothing was parsed.", "kind"),
		requests:         describe("http_requests_total", "HTTP requests by the status of their answer.", "code"),
		inFlight:         describe("in_flight_bytes", "Bytes of bodies and chunks being read or written."),
	}}
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "tickmesh_ingest_write_seconds",
		Help:    "Time from a request or chunk in memory to its answer.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .02, .04, .08, .16, .32, .64, 1.25, 2.5, 5, 10},
	}, []string{"protocol"})
	for p := range protocols {
		m.protocols[p].seconds = m.seconds.WithLabelValues(protocolNames[p])
	}
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	if err := r.Register(m); err != nil {
		return fmt.Errorf("%w: metrics: %w", ErrOptions, err)
	}
	return nil
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	d := &m.described
	for _, desc := range []*prometheus.Desc{d.points, d.exemplars, d.native, d.bytes, d.connections, d.connectionsTotal, d.drops, d.errors, d.requests, d.inFlight} {
		to <- desc
	}
	m.seconds.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	d := &m.described
	counter := func(desc *prometheus.Desc, v *atomic.Int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v.Load()), labels...)
	}
	for p := range protocols {
		pm, name := &m.protocols[p], protocolNames[p]
		counter(d.points, &pm.accepted, name, "accepted")
		counter(d.points, &pm.refused, name, "refused")
		counter(d.points, &pm.skipped, name, "skipped")
		counter(d.points, &pm.failed, name, "failed")
		counter(d.bytes, &pm.bytes, name)
	}
	for outcome := range exemplarOutcomes {
		counter(d.exemplars, &m.exemplars[outcome], exemplarOutcomeNames[outcome])
	}
	counter(d.native, &m.native)
	for p := range portUDP {
		pm, name := &m.ports[p], portNames[p]
		to <- prometheus.MustNewConstMetric(d.connections, prometheus.GaugeValue, float64(pm.open.Load()), name)
		counter(d.connectionsTotal, &pm.accepted, name, "accepted")
		counter(d.connectionsTotal, &pm.refused, name, "refused")
		counter(d.connectionsTotal, &pm.unsafe, name, "tls_failed")
	}
	for cause := range dropCauses {
		counter(d.drops, &m.drops[cause], dropNames[cause][0], dropNames[cause][1])
	}
	for kind := range refusal.Kinds {
		counter(d.errors, &m.failures.counts[kind], kind.String())
	}
	for code := range m.codes {
		if m.codes[code].Load() > 0 {
			counter(d.requests, &m.codes[code], strconv.Itoa(code))
		}
	}
	to <- prometheus.MustNewConstMetric(d.inFlight, prometheus.GaugeValue, float64(m.writes.Stats().Used))
	m.seconds.Collect(to)
}

// answered counts one HTTP answer.
func (m *metrics) answered(status int) {
	if status < 0 || status >= len(m.codes) {
		status = 0
	}
	m.codes[status].Add(1)
}
