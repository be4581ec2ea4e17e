package bench

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Report is everything that goes on the page.
type Report struct {
	Results  *Results
	Config   Config
	Machine  Machine
	Date     time.Time
	Versions map[string]string
}

// WriteMarkdown writes the page: where and how, the aims, then a table for each workload
// with the targets side by side. Ratios above 1 mean that TickMesh is better.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var page strings.Builder
	r.writeHead(&page)
	r.writeAims(&page)
	for _, name := range r.Config.Workloads {
		r.writeTable(&page, name)
	}
	writeList(&page, "Notes", r.Results.Notes)
	writeList(&page, "Failed", r.Results.Failures)
	_, err := io.WriteString(w, page.String())
	return err
}

func (r *Report) writeHead(page *strings.Builder) {
	config, machine := r.Config, r.Machine
	fmt.Fprintf(page, "# Measurements of %s\n\n", r.Date.UTC().Format(time.DateOnly))
	fmt.Fprintf(page, "- Machine: %s, %d cores, %.1f GiB, Linux %s, %s\n", machine.CPU, machine.Cores,
		float64(machine.MemoryBytes)/(1<<30), machine.Kernel, machine.Go)
	fmt.Fprintf(page, "- Server on cores %s, client on cores %s", config.ServerCPUs, config.ClientCPUs)
	if config.Shared {
		page.WriteString(" (shared: the client takes time from the server, so rates are too low)")
	}
	fmt.Fprintf(page, "\n- Command: `%s`\n", config.Command)
	for _, target := range config.Targets {
		fmt.Fprintf(page, "- %s: %s\n", target.Name(), r.Versions[target.Name()])
	}
	fmt.Fprintf(page, "- Figures are medians of up to %d runs, with the least and the greatest in parentheses. A ratio above 1 means that TickMesh is better.\n", config.Runs)
}

func (r *Report) writeTable(page *strings.Builder, name string) {
	rows := r.Results.rows(name)
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(page, "\n## %s\n\n%s\n\n| case | figure | unit |", title(name), describe(name))
	rule := "|---|---|---|"
	for _, target := range r.Config.Targets {
		fmt.Fprintf(page, " %s |", target.Name())
		rule += "---|"
	}
	for _, target := range r.Config.Targets {
		if target.Name() != measured {
			fmt.Fprintf(page, " × %s |", target.Name())
			rule += "---|"
		}
	}
	page.WriteString("\n" + rule + "\n")
	for _, row := range rows {
		fmt.Fprintf(page, "| %s | %s | %s |", row.Case, row.Name, row.Unit)
		for _, target := range r.Config.Targets {
			fmt.Fprintf(page, " %s |", row.ByTarget[target.Name()].text())
		}
		for _, target := range r.Config.Targets {
			if target.Name() == measured {
				continue
			}
			if ratio, ok := row.ratio(measured, target.Name()); ok {
				fmt.Fprintf(page, " %s |", short(ratio))
			} else {
				page.WriteString(" – |")
			}
		}
		page.WriteString("\n")
	}
}

func writeList(page *strings.Builder, heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(page, "\n## %s\n\n", heading)
	for _, line := range lines {
		fmt.Fprintf(page, "- %s\n", line)
	}
}
