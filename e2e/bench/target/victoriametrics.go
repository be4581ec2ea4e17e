package target

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// VictoriaMetrics is the single-node server, asked through its Prometheus query API.
type VictoriaMetrics struct {
	Program string // built from its sources; "" is that of Debian's package victoria-metrics
	Built   string // the version of Program; "": that of the file
}

const victoriaMetricsProgram = "victoria-metrics"

// Name implements Target.
func (VictoriaMetrics) Name() string { return "victoria-metrics" }

// Version implements Target.
func (v VictoriaMetrics) Version(ctx context.Context) (string, error) {
	if v.Program != "" {
		return builtVersion(v.Program, v.Built, "victoria-metrics")
	}
	return packageVersion(ctx, victoriaMetricsProgram, "victoria-metrics")
}

// packageVersion finds the program and asks the package manager, because the
// programs of Debian's packages do not all know their version.
func packageVersion(ctx context.Context, program, name string) (string, error) {
	if _, err := exec.LookPath(program); err != nil {
		return "", fmt.Errorf("%w: Debian package %s", ErrNotInstalled, name)
	}
	output, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Version}", name).Output()
	if err != nil {
		return name + " of unknown version", nil //nolint:nilerr // the figure is told without it
	}
	return name + " " + string(output), nil
}

// Command implements Target. Retention is long because the data has fixed times,
// and the limits on series allow the cardinality that is measured.
func (v VictoriaMetrics) Command(dir string, addresses Addresses, memoryLimitBytes int64) (harness.ProcessOptions, error) {
	args := []string{
		"-storageDataPath=" + dir, "-httpListenAddr=" + addresses.HTTP, "-opentsdbListenAddr=" + addresses.Put,
		"-retentionPeriod=100y", "-search.maxUniqueTimeseries=20000000", "-search.maxQueryDuration=5m",
		"-search.disableCache", "-loggerLevel=WARN", "-http.connTimeout=1h",
	}
	if memoryLimitBytes > 0 {
		args = append(args, "-memory.allowedBytes="+strconv.FormatInt(memoryLimitBytes*6/10, 10))
	}
	return harness.ProcessOptions{Path: cmp.Or(v.Program, victoriaMetricsProgram), Args: args}, nil
}

// ReadyPath implements Target.
func (VictoriaMetrics) ReadyPath() string { return "/health" }

// Prepare implements Target: there is nothing to prepare.
func (VictoriaMetrics) Prepare(context.Context, *Server) error { return nil }

// Speaks implements Target.
func (VictoriaMetrics) Speaks(protocol Protocol) bool { return protocol != TCPLine }

// Fence implements Target: the server does not know "version", but closes after
// the last line.
func (VictoriaMetrics) Fence(Protocol) string { return "" }

// Applied implements Target: the server closes a connection when its rows are in.
func (VictoriaMetrics) Applied(context.Context, *Server, Protocol, int64) error { return nil }

// Publish implements Target: new rows become visible to queries with a flush.
func (VictoriaMetrics) Publish(ctx context.Context, server *Server) error {
	_, err := server.Get(ctx, "/internal/force_flush")
	return err
}

// poll repeats check until it is true, for at most timeout.
func poll(ctx context.Context, timeout time.Duration, check func() (done bool, state string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		done, state, err := check()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", state, ctx.Err())
		case <-ticker.C:
		}
	}
}

// WritePath implements Target.
func (VictoriaMetrics) WritePath() string { return "/write?precision=s" }

// QueryPath implements Target.
func (v VictoriaMetrics) QueryPath(q Query) string {
	selector, span := v.selector(q), q.ToS-q.FromS
	// A window in brackets ends at the time of the query, which it includes, and
	// leaves out its beginning.
	last := q.ToS - 1
	instant := func(expression string, at int64) string {
		return fmt.Sprintf("/api/v1/query?nocache=1&time=%d&query=%s", at, url.QueryEscape(expression))
	}
	switch q.Kind {
	case Point:
		// A bare selector looks back for a sample and finds none where a series begins.
		return instant(fmt.Sprintf("last_over_time(%s[1s])", selector), q.FromS)
	case Raw:
		return instant(fmt.Sprintf("%s[%ds]", selector, span), last)
	case Mean:
		return instant(fmt.Sprintf("avg(avg_over_time(%s[%ds]))", selector, span), last)
	case Minutes, EachMinutes:
		expression := fmt.Sprintf("avg_over_time(%s[1m])", selector)
		if q.Kind == Minutes {
			expression = "avg(" + expression + ")"
		} else if q.Sensor == All { // one of each name, which the function drops
			expression = fmt.Sprintf("avg_over_time(%s[1m]) keep_metric_names", selector)
		}
		return fmt.Sprintf("/api/v1/query_range?nocache=1&start=%d&end=%d&step=60&query=%s", q.FromS+59, last, url.QueryEscape(expression))
	default:
		return instant(fmt.Sprintf("sum(count_over_time(%s[%ds]))", selector, span), last)
	}
}

// selector names series as the server does: the field of line protocol becomes a
// part of the name.
func (VictoriaMetrics) selector(q Query) string {
	var labels []string
	name := workload.Metric
	if q.Form == workload.Line && q.Sensor != All {
		name += "_" + workload.SensorName(q.Sensor)
	}
	if q.Form == workload.Line && q.Sensor == All {
		labels, name = append(labels, `__name__=~"`+workload.Metric+`_s_[0-9]"`), ""
	}
	if q.Device != All {
		labels = append(labels, `device="`+workload.DeviceName(q.Device)+`"`)
	}
	if q.Form == workload.Put && q.Sensor != All {
		labels = append(labels, `sensor="`+workload.SensorName(q.Sensor)+`"`)
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

// Parse implements Target.
func (VictoriaMetrics) Parse(q Query, body []byte) (Answer, error) {
	return parsePrometheus(q.Kind, body)
}

// Compact implements Target: it merges all parts into one.
func (VictoriaMetrics) Compact(ctx context.Context, server *Server) error {
	if _, err := server.Get(ctx, "/internal/force_merge"); err != nil {
		return err
	}
	return poll(ctx, 3*time.Minute, func() (bool, string, error) {
		metrics, err := server.Get(ctx, "/metrics")
		if err != nil {
			return false, "", err
		}
		for line := range strings.Lines(string(metrics)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "vm_active_force_merges ") || strings.HasPrefix(line, "vm_active_merges{") {
				if !strings.HasSuffix(line, " 0") {
					return false, line, nil
				}
			}
		}
		return true, "", nil
	})
}

// SeriesMax implements Target.
func (VictoriaMetrics) SeriesMax() (int, string) { return 0, "" }
