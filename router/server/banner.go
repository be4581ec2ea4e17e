package server

import (
	"fmt"
	"io"
	"net"
	"text/tabwriter"
)

// banner is what a started server prints on standard output: what to send where.
// A nil address is left out.
type banner struct {
	version, about             string
	http, put, line, udp, grpc net.Addr
	graphite, otlp             net.Addr
	metrics                    net.Addr
	udpFormat                  string
	secure                     bool // the TCP ports speak TLS
	users                      bool // callers have to say who they are
}

// write prints the banner. On IPv4 its lines fit 100 columns.
func (g *banner) write(w io.Writer) {
	fmt.Fprintf(w, "TickMesh %s %s\n\n", g.version, g.about)
	http, tcp := "http://", "tcp://"
	if g.secure {
		http, tcp = "https://", "tls://"
	}
	if g.http != nil {
		url, curl := http+typable(g.http), "curl"
		if g.users {
			curl += " -u USER"
		}
		fmt.Fprintf(w, "  Try    %s -d 'cpu,host=a value=0.64' %s/write\n", curl, url)
		fmt.Fprintf(w, "         %s '%s/api/v1/query?query=cpu'\n", curl, url)
		fmt.Fprintf(w, "         %s/ in a browser: queries, metrics, the cluster\n\n", url)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	title := "Send"
	row := func(scheme string, address net.Addr, path, text string) {
		if address == nil {
			return
		}
		fmt.Fprintf(table, "  %-6s %s%s%s\t%s\n", title, scheme, typable(address), path, text)
		title = ""
	}
	const put, line = "OpenTSDB put lines", "InfluxDB line protocol"
	row(http, g.http, "/write", line+" (also /api/v2/write)")
	row(http, g.http, "/api/put", "OpenTSDB JSON or put lines")
	row(http, g.http, "/api/v1/write", "Prometheus remote write")
	row(http, g.http, "/v1/metrics", "OpenTelemetry metrics (OTLP)")
	row("grpc://", g.otlp, "", "OpenTelemetry metrics (OTLP)")
	row(tcp, g.put, "", put)
	row(tcp, g.line, "", line)
	row(tcp, g.graphite, "", "Graphite plaintext and pickles")
	if g.udpFormat == "line" {
		row("udp://", g.udp, "", line)
	} else {
		row("udp://", g.udp, "", put)
	}
	title = "Ask"
	row(http, g.http, "/api/v1/query", "PromQL, for Grafana too")
	row(http, g.http, "/query", "InfluxQL")
	row(http, g.http, "/api/query", "OpenTSDB queries")
	title = "Watch"
	row(http, g.http, "/metrics", "metrics; health is at /readyz and /healthz")
	row(http, g.metrics, "/metrics", "metrics and health alone")
	row("grpc://", g.grpc, "", "gRPC: client libraries and commands; health")
	_ = table.Flush() // a reader that has gone is no reason to stop
	fmt.Fprintln(w, "\nStop with Ctrl-C or SIGTERM.")
}

// typable returns an address as one can type it: localhost for all interfaces.
func typable(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return address.String()
}
