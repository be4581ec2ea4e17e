package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/series"
)

// standaloneSettings are the flags of `tickmesh standalone`.
type standaloneSettings struct {
	httpAddr, putAddr, lineAddr, udpAddr, grpcAddr address
	udpFormat                                      oneOf

	dataDir                       string
	shards                        count
	retention                     span
	walSync                       oneOf
	walSyncInterval               span
	checkpointBytes               byteSize
	flushInterval                 span
	walFileBytes, pageFileBytes   byteSize
	seriesMax, seriesPerSecondMax count

	lineBytesMax, keyBytesMax                      byteSize
	tagsMax, connectionsMax                        count
	bodyBytesMax, bodyDecodedMax, inFlightBytesMax byteSize

	querySeriesMax, querySamplesMax count
	queryMemory                     byteSize
	queryTimeout                    span

	config                         string
	logFormat, logLevel            oneOf
	pprof, admin                   bool
	corsOrigins                    []string
	shutdownDelay, shutdownTimeout span
	memoryLimit                    byteSize
	failpoints                     string
}

const (
	headingListeners   = "Listeners (empty switches one off)"
	headingStorage     = "Storage"
	headingWriteLimits = "Limits of writes"
	headingQueryLimits = "Limits of queries (0: none)"
	headingOperation   = "Operation"
)

func headings() []string {
	return []string{headingListeners, headingStorage, headingWriteLimits, headingQueryLimits, headingOperation}
}

func (s *standaloneSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.defineListeners(f)
	s.defineStorage(f)
	s.defineWriteLimits(f)
	s.defineQueryLimits(f)
	s.defineOperation(f)
}

func (s *standaloneSettings) defineListeners(f *pflag.FlagSet) {
	s.httpAddr, s.putAddr, s.lineAddr, s.grpcAddr = ":6182", ":6181", ":6180", ":6183"
	f.Var(&s.httpAddr, "http-addr", "HTTP: writes, queries, metrics, health")
	f.Var(&s.putAddr, "put-addr", "TCP: OpenTSDB put lines")
	f.Var(&s.lineAddr, "line-addr", "TCP: InfluxDB line protocol")
	f.Var(&s.udpAddr, "udp-addr", "UDP: lines, one or more in a datagram (default off)")
	s.udpFormat = oneOf{value: "put", words: []string{"put", "line"}}
	f.Var(&s.udpFormat, "udp-format", "what the lines on the UDP port are")
	f.Var(&s.grpcAddr, "grpc-addr", "gRPC: health service")
	group(f, headingListeners, "http-addr", "put-addr", "line-addr", "udp-addr", "udp-format", "grpc-addr")
}

func (s *standaloneSettings) defineStorage(f *pflag.FlagSet) {
	f.StringVar(&s.dataDir, "data-dir", "tickmesh-data", "`folder` for all data; made if missing")
	s.shards = 128
	f.Var(&s.shards, "shards", "shards of a new data folder; a used one keeps its own number")
	f.Var(&s.retention, "retention", "how long samples are kept; 0: for ever")
	s.walSync = oneOf{value: "always", words: []string{"always", "interval", "off"}}
	f.Var(&s.walSync, "wal-sync", "when the log is made safe against a power cut: before each answer, at an interval, or when the operating system likes")
	s.walSyncInterval, s.flushInterval = span(time.Second), span(5*time.Minute)
	f.Var(&s.walSyncInterval, "wal-sync-interval", "the interval of --wal-sync=interval")
	s.checkpointBytes, s.walFileBytes, s.pageFileBytes = 64<<20, 16<<20, 16<<20
	f.Var(&s.checkpointBytes, "checkpoint-bytes", "bytes of log between checkpoints; a restart replays at most twice as many")
	f.Var(&s.flushInterval, "flush-interval", "how often full pages are sorted into segments")
	f.Var(&s.walFileBytes, "wal-file-bytes", "size of the log's files")
	f.Var(&s.pageFileBytes, "page-file-bytes", "size of the page log's files")
	group(f, headingStorage, "data-dir", "shards", "retention", "wal-sync", "wal-sync-interval",
		"checkpoint-bytes", "flush-interval", "wal-file-bytes", "page-file-bytes")
}

func (s *standaloneSettings) defineWriteLimits(f *pflag.FlagSet) {
	f.Var(&s.seriesMax, "series-max", "series in all; 0: no limit")
	f.Var(&s.seriesPerSecondMax, "series-per-second-max", "new series a second; 0: no limit")
	s.lineBytesMax, s.keyBytesMax = 64<<10, 8<<10
	f.Var(&s.lineBytesMax, "line-bytes-max", "length of a line")
	f.Var(&s.keyBytesMax, "key-bytes-max", "length of a series' key: database, metric and tags")
	s.tagsMax, s.connectionsMax = 64, 10_000
	f.Var(&s.tagsMax, "tags-max", "tags of a series")
	s.bodyBytesMax, s.bodyDecodedMax, s.inFlightBytesMax = 32<<20, 64<<20, 256<<20
	f.Var(&s.bodyBytesMax, "body-bytes-max", "body of an HTTP request as sent")
	f.Var(&s.bodyDecodedMax, "body-decoded-bytes-max", "body of an HTTP request, decompressed")
	f.Var(&s.inFlightBytesMax, "in-flight-bytes-max", "memory of all requests that are being read or written")
	f.Var(&s.connectionsMax, "connections-max", "connections of each listener")
	group(f, headingWriteLimits, "series-max", "series-per-second-max", "line-bytes-max", "key-bytes-max", "tags-max",
		"body-bytes-max", "body-decoded-bytes-max", "in-flight-bytes-max", "connections-max")
}

func (s *standaloneSettings) defineQueryLimits(f *pflag.FlagSet) {
	s.querySeriesMax, s.querySamplesMax = 1_000_000, 1_000_000_000
	f.Var(&s.querySeriesMax, "query-series-max", "series that one query reads")
	f.Var(&s.querySamplesMax, "query-samples-max", "samples that one query reads")
	s.queryMemory, s.queryTimeout = 512<<20, span(2*time.Minute)
	f.Var(&s.queryMemory, "query-memory", "memory of one query")
	f.Var(&s.queryTimeout, "query-timeout", "time of one query")
	group(f, headingQueryLimits, "query-series-max", "query-samples-max", "query-memory", "query-timeout")
}

func (s *standaloneSettings) defineOperation(f *pflag.FlagSet) {
	f.StringVar(&s.config, flagConfig, "", "YAML `file` with settings")
	s.logFormat = oneOf{value: "text", words: []string{"text", "json"}}
	f.Var(&s.logFormat, "log-format", "form of the log on standard error")
	s.logLevel = oneOf{value: "info", words: []string{"debug", "info", "warn", "error"}}
	f.Var(&s.logLevel, "log-level", "least important kind of log line")
	f.BoolVar(&s.pprof, "pprof", false, "serve Go's profiles below /debug/pprof/")
	f.BoolVar(&s.admin, "admin", false, "serve POST /admin/settle: seal, sort and merge everything now")
	f.StringSliceVar(&s.corsOrigins, "cors-origins", nil, "`origins` whose pages may query, with commas between; * for all")
	f.Var(&s.shutdownDelay, "shutdown-delay", "how long to serve on after SIGTERM, as not ready, so that balancers look elsewhere (default 0)")
	s.shutdownTimeout = span(30 * time.Second)
	f.Var(&s.shutdownTimeout, "shutdown-timeout", "how long running requests may take to end then")
	f.Var(&s.memoryLimit, "memory-limit", "soft limit of the memory of Go's runtime; 0: what GOMEMLIMIT says")
	f.StringVar(&s.failpoints, "failpoints", "", "for tests: where to fail, as name=kill@n;…")
	_ = f.MarkHidden("failpoints") // the flag is there: defined one line above
	group(f, headingOperation, flagConfig, "log-format", "log-level", "pprof", "admin", "cors-origins",
		"shutdown-delay", "shutdown-timeout", "memory-limit", "failpoints")
}

// listenerFlag is a flag that names an address.
type listenerFlag struct {
	flag, network string
	address       address
}

func (s *standaloneSettings) listeners() []listenerFlag {
	return []listenerFlag{
		{"http-addr", "tcp", s.httpAddr}, {"put-addr", "tcp", s.putAddr}, {"line-addr", "tcp", s.lineAddr},
		{"udp-addr", "udp", s.udpAddr}, {"grpc-addr", "tcp", s.grpcAddr},
	}
}

// Bounds of settings. Files smaller than fileBytesMin hold no round of writes.
const (
	shardsMax      = 4096
	connectionsMax = 1 << 20
	fileBytesMin   = 64 << 10
	fileBytesMax   = 1 << 30
	retentionMin   = time.Hour
	textBytesMax   = 1 << 30 // as the parsers place text by 32 bits
	// inFlightSlack is what the front needs beside a body and its decompressed
	// form, or beside a line; inFlightMin is room for the body of a query.
	inFlightSlack = 64<<10 + 1<<10
	inFlightMin   = 16<<20 + inFlightSlack
)

// validate checks what a flag's own type cannot: bounds, and flags against each
// other. The error has a line for each problem.
func (s *standaloneSettings) validate() error {
	var problems []error
	refuse := func(flag, value, reason string) {
		problems = append(problems, fmt.Errorf("--%s: invalid value %q: %s", flag, value, reason))
	}
	between := func(flag string, value, least, most count) {
		if value < least || value > most {
			refuse(flag, value.String(), fmt.Sprintf("expected %d to %d", least, most))
		}
	}
	sizeBetween := func(flag string, value, least, most byteSize) {
		if value < least || value > most {
			refuse(flag, value.String(), fmt.Sprintf("expected %v to %v", &least, &most))
		}
	}
	notZero := func(flag string, value span) {
		if value == 0 {
			refuse(flag, "0", "expected more than 0")
		}
	}
	if s.dataDir == "" {
		refuse("data-dir", "", "expected the name of a folder")
	}
	between("shards", s.shards, 1, shardsMax)
	if s.retention != 0 && time.Duration(s.retention) < retentionMin {
		refuse("retention", s.retention.String(), "expected 0, for ever, or at least 1h")
	}
	notZero("wal-sync-interval", s.walSyncInterval)
	notZero("flush-interval", s.flushInterval)
	notZero("shutdown-timeout", s.shutdownTimeout)
	sizeBetween("checkpoint-bytes", s.checkpointBytes, fileBytesMin, byteSizeMax)
	sizeBetween("wal-file-bytes", s.walFileBytes, fileBytesMin, fileBytesMax)
	sizeBetween("page-file-bytes", s.pageFileBytes, fileBytesMin, fileBytesMax)
	sizeBetween("line-bytes-max", s.lineBytesMax, 1, textBytesMax)
	sizeBetween("key-bytes-max", s.keyBytesMax, 1, series.KeyBytesMax)
	sizeBetween("body-bytes-max", s.bodyBytesMax, 1, textBytesMax)
	sizeBetween("body-decoded-bytes-max", s.bodyDecodedMax, 1, textBytesMax)
	between("tags-max", s.tagsMax, 1, series.TagsMax)
	between("connections-max", s.connectionsMax, 1, connectionsMax)
	if need := max(s.bodyBytesMax+s.bodyDecodedMax+inFlightSlack, s.lineBytesMax+inFlightSlack, inFlightMin); s.inFlightBytesMax < need {
		refuse("in-flight-bytes-max", s.inFlightBytesMax.String(), fmt.Sprintf(
			"expected %d or more, room for one request of --body-bytes-max and --body-decoded-bytes-max or one line of --line-bytes-max", need))
	}
	return errors.Join(append(problems, s.validateListeners())...)
}

// validateListeners resolves the addresses and looks for one that is used twice.
func (s *standaloneSettings) validateListeners() error {
	var problems []error
	flagOf := map[string]string{}
	for _, l := range s.listeners() {
		if l.address == "" {
			continue
		}
		resolved, port, err := l.resolve()
		if err != nil {
			problems = append(problems, fmt.Errorf("--%s: invalid value %q: %w", l.flag, l.address, err))
			continue
		}
		key := l.network + " " + resolved
		if before, ok := flagOf[key]; ok && port != 0 {
			problems = append(problems, fmt.Errorf("--%s: invalid value %q: --%s listens there", l.flag, l.address, before))
		}
		flagOf[key] = l.flag
	}
	if len(flagOf) == 0 && len(problems) == 0 {
		return errors.New("every listener is switched off: set --http-addr or another address")
	}
	return errors.Join(problems...)
}

func (l *listenerFlag) resolve() (resolved string, port int, err error) {
	if l.network == "udp" {
		a, err := net.ResolveUDPAddr(l.network, string(l.address))
		if err != nil {
			return "", 0, err
		}
		return a.String(), a.Port, nil
	}
	a, err := net.ResolveTCPAddr(l.network, string(l.address))
	if err != nil {
		return "", 0, err
	}
	return a.String(), a.Port, nil
}
