package main

import (
	"crypto/x509"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/origin"
)

// operationSettings say how a process is run and watched.
type operationSettings struct {
	config                         string
	logFormat, logLevel            oneOf
	pprof, admin                   bool
	corsOrigins, httpHosts         []string
	shutdownDelay, shutdownTimeout span
	memoryLimit                    byteSize
	failpoints                     string
}

func (s *operationSettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.config, flagConfig, "", "YAML `file` with settings")
	s.logFormat = oneOf{value: "text", words: []string{"text", "json"}}
	f.Var(&s.logFormat, "log-format", "form of the log on standard error")
	s.logLevel = oneOf{value: "info", words: []string{"debug", "info", "warn", "error"}}
	f.Var(&s.logLevel, "log-level", "least important kind of log line")
	f.BoolVar(&s.pprof, "pprof", false, "serve Go's profiles below /debug/pprof/")
	f.BoolVar(&s.admin, "admin", false, "serve POST /admin/settle: seal, sort and merge everything now")
	f.StringSliceVar(&s.corsOrigins, "cors-origins", nil, "`origins` whose pages may ask, with commas between; * lets all read")
	f.StringSliceVar(&s.httpHosts, "http-hosts", nil, "`names` by which HTTP may be asked, with commas between, *.NAME for all below, * for any; besides addresses, localhost, names without a dot and of Kubernetes' services")
	f.Var(&s.shutdownDelay, "shutdown-delay", "how long to serve on after SIGTERM, as not ready, so that balancers look elsewhere (default 0)")
	s.shutdownTimeout = span(30 * time.Second)
	f.Var(&s.shutdownTimeout, "shutdown-timeout", "how long running requests may take to end then")
	f.Var(&s.memoryLimit, "memory-limit", "soft limit of the memory of Go's runtime; 0: what GOMEMLIMIT says, or half of what there is")
	f.StringVar(&s.failpoints, "failpoints", "", "for tests: where to fail, as name=kill@n;…")
	_ = f.MarkHidden("failpoints") // the flag is there: defined one line above
	group(f, headingOperation, flagConfig, "log-format", "log-level", "pprof", "admin", "cors-origins", "http-hosts",
		"shutdown-delay", "shutdown-timeout", "memory-limit", "failpoints")
}

func (s *operationSettings) validate(v *validation) {
	v.notZero("shutdown-timeout", s.shutdownTimeout)
	if _, err := s.pages(nil); err != nil {
		v.refuse("http-hosts", strings.Join(s.httpHosts, ","), err.Error())
	}
}

// pages decides which requests of browsers the HTTP port takes, whose certificate is given;
// nil: it has none.
func (s *operationSettings) pages(certificate func() *x509.Certificate) (*origin.Policy, error) {
	host, _ := os.Hostname() // then it is not known
	return origin.New(origin.Options{Hosts: s.httpHosts, Origins: s.corsOrigins, Hostname: host, Certificate: certificate})
}
