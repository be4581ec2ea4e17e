package main

import (
	"time"

	"github.com/spf13/pflag"
)

// operationSettings say how a process is run and watched.
type operationSettings struct {
	config                         string
	logFormat, logLevel            oneOf
	pprof, admin                   bool
	corsOrigins                    []string
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
	f.StringSliceVar(&s.corsOrigins, "cors-origins", nil, "`origins` whose pages may query, with commas between; * for all")
	f.Var(&s.shutdownDelay, "shutdown-delay", "how long to serve on after SIGTERM, as not ready, so that balancers look elsewhere (default 0)")
	s.shutdownTimeout = span(30 * time.Second)
	f.Var(&s.shutdownTimeout, "shutdown-timeout", "how long running requests may take to end then")
	f.Var(&s.memoryLimit, "memory-limit", "soft limit of the memory of Go's runtime; 0: what GOMEMLIMIT says, or half of what there is")
	f.StringVar(&s.failpoints, "failpoints", "", "for tests: where to fail, as name=kill@n;…")
	_ = f.MarkHidden("failpoints") // the flag is there: defined one line above
	group(f, headingOperation, flagConfig, "log-format", "log-level", "pprof", "admin", "cors-origins",
		"shutdown-delay", "shutdown-timeout", "memory-limit", "failpoints")
}

func (s *operationSettings) validate(v *validation) { v.notZero("shutdown-timeout", s.shutdownTimeout) }
