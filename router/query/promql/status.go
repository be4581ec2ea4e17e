package promql

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
)

// What a server that scrapes nothing tells of these.

func (h *handler) targets(x *exchange) error {
	return x.out.value(map[string]any{"activeTargets": []any{}, "droppedTargets": []any{}, "droppedTargetCounts": map[string]int{}})
}

func (h *handler) targetMetadata(x *exchange) error { return x.out.value([]any{}) }

// buildInfo serves /api/v1/status/buildinfo. It tells of no features: Grafana would take a
// server that does for Mimir.
func (h *handler) buildInfo(x *exchange) error {
	b := h.options.Build
	return x.out.value(struct {
		Version   string `json:"version"`
		Revision  string `json:"revision"`
		Branch    string `json:"branch"`
		BuildUser string `json:"buildUser"`
		BuildDate string `json:"buildDate"`
		GoVersion string `json:"goVersion"`
	}{Version: b.Version, Revision: b.Revision, BuildDate: b.BuildDate, GoVersion: b.GoVersion})
}

// runtimeInfo serves /api/v1/status/runtimeinfo.
func (h *handler) runtimeInfo(x *exchange) error {
	hostname, _ := os.Hostname() // without one the field is empty
	now := h.shell.Clock().UTC()
	return x.out.value(map[string]any{
		"startTime": h.started.UTC().Format(time.RFC3339Nano), "CWD": "", "hostname": hostname, "serverTime": now.Format(time.RFC3339Nano),
		"reloadConfigSuccess": true, "lastConfigTime": h.started.UTC().Format(time.RFC3339Nano), "corruptionCount": 0,
		"goroutineCount": runtime.NumGoroutine(), "GOMAXPROCS": runtime.GOMAXPROCS(0), "GOMEMLIMIT": debug.SetMemoryLimit(-1),
		"GOGC": os.Getenv("GOGC"), "GODEBUG": os.Getenv("GODEBUG"), "storageRetention": "",
	})
}

// showConfig serves /api/v1/status/config: the parts of Prometheus' configuration that
// clients read. Grafana takes the interval of scraping from it where a person set none.
func (h *handler) showConfig(x *exchange) error {
	return x.out.value(map[string]string{"yaml": ""})
}

// showFlags serves /api/v1/status/flags.
func (h *handler) showFlags(x *exchange) error {
	return x.out.value(map[string]string{"query.lookback-delta": h.options.LookbackDelta.String(), "query.max-samples": strconv.Itoa(h.options.SamplesMax)})
}

// formatQuery serves /api/v1/format_query.
func (h *handler) formatQuery(x *exchange) error {
	expr, err := h.expression(x, invalidQuery)
	if err != nil {
		return err
	}
	text, err := formatted(x.ctx, expr)
	if err != nil {
		return err
	}
	return x.out.value(text)
}

// parseQuery serves /api/v1/parse_query.
func (h *handler) parseQuery(x *exchange) error {
	expr, err := h.expression(x, invalidQuery)
	if err != nil {
		return err
	}
	tree, err := treeOf(expr)
	if err != nil {
		return err
	}
	return x.out.value(tree)
}
