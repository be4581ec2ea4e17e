package settings

import (
	"crypto/x509"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/origin"
)

// Operation are the settings of how a process is run and watched.
type Operation struct {
	Log
	Pprof, Admin                   bool
	corsOrigins, httpHosts         []string
	ShutdownDelay, ShutdownTimeout Duration
	MemoryLimit                    Bytes
	Failpoints                     string
}

// Define defines the flags, below HeadingOperation.
func (s *Operation) Define(f *pflag.FlagSet) {
	s.Log.Define(f)
	f.BoolVar(&s.Pprof, "pprof", false, "serve Go's profiles below /debug/pprof/")
	f.BoolVar(&s.Admin, "admin", false, "serve POST /admin/settle: seal, sort and merge everything now")
	f.StringSliceVar(&s.corsOrigins, "cors-origins", nil, "`origins` whose pages may ask, with commas between; * lets all read")
	f.StringSliceVar(&s.httpHosts, "http-hosts", nil, "`names` by which HTTP may be asked, with commas between, *.NAME for all below, * for any; besides addresses, localhost, names without a dot and of Kubernetes' services")
	f.Var(&s.ShutdownDelay, "shutdown-delay", "how long to serve on after SIGTERM, as not ready, so that balancers look elsewhere (default 0)")
	s.ShutdownTimeout = Duration(30 * time.Second)
	f.Var(&s.ShutdownTimeout, "shutdown-timeout", "how long running requests may take to end then")
	f.Var(&s.MemoryLimit, "memory-limit", "memory of the whole process, divided among all that holds some; 0: twice GOMEMLIMIT where that is set, or all that the control group or the machine has")
	f.StringVar(&s.Failpoints, "failpoints", "", "for tests: where to fail, as name=kill@n;…")
	Hide(f, "pprof", "admin", "failpoints")
	Group(f, HeadingOperation, "pprof", "admin", "cors-origins", "http-hosts",
		"shutdown-delay", "shutdown-timeout", "memory-limit", "failpoints")
}

// memoryLimitMin is the least memory that is divided.
const memoryLimitMin = 16 << 20

// Validate refuses values that cannot be.
func (s *Operation) Validate(v *Validation) {
	v.NotZero("shutdown-timeout", s.ShutdownTimeout)
	if s.MemoryLimit != 0 && s.MemoryLimit < memoryLimitMin {
		v.Refuse("memory-limit", s.MemoryLimit.String(), "expected 0, or at least 16MiB: a share of less is too small for a request")
	}
	if _, err := s.OriginPolicy(nil); err != nil {
		v.Refuse("http-hosts", strings.Join(s.httpHosts, ","), err.Error())
	}
}

// OriginPolicy returns which requests of browsers the HTTP port takes, whose certificate is
// given; nil: it has none.
func (s *Operation) OriginPolicy(certificate func() *x509.Certificate) (*origin.Policy, error) {
	host, _ := os.Hostname() // then it is not known
	return origin.New(origin.Options{Hosts: s.httpHosts, Origins: s.corsOrigins, Hostname: host, Certificate: certificate})
}
