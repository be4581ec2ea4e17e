package server

import (
	"errors"
	"net"
	"os"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
)

// Listeners are the addresses where clients are served.
type Listeners struct {
	HTTPAddr, PutAddr, LineAddr, GraphiteAddr, UDPAddr, GRPCAddr, OTLPAddr settings.Address
	MetricsAddr                                                            settings.Address // of metrics and health alone
	udpFormat, textFields                                                  settings.Choice
	graphiteTemplates                                                      string // path of a file
	mqttFile                                                               string // the same
}

// Define defines the flags, below HeadingListeners.
func (s *Listeners) Define(f *pflag.FlagSet) {
	s.HTTPAddr, s.PutAddr, s.LineAddr, s.GRPCAddr = ":6182", ":6181", ":6180", ":6183"
	f.Var(&s.HTTPAddr, "http-addr", "HTTP: writes, queries, metrics, health")
	f.Var(&s.PutAddr, "put-addr", "TCP: OpenTSDB put lines")
	f.Var(&s.LineAddr, "line-addr", "TCP: InfluxDB line protocol")
	f.Var(&s.GraphiteAddr, "graphite-addr", "TCP: Graphite's plaintext and pickles (default off)")
	f.StringVar(&s.graphiteTemplates, "graphite-templates", "", "`file` that says how Graphite's paths become metrics and tags (default: a path is a metric)")
	f.StringVar(&s.mqttFile, "mqtt-file", "", "`file` of MQTT brokers and the topics that are read there (default none)")
	f.Var(&s.UDPAddr, "udp-addr", "UDP: lines, one or more in a datagram (default off)")
	s.udpFormat = settings.Choice{Value: "put", Words: []string{"put", "line"}}
	f.Var(&s.udpFormat, "udp-format", "what the lines on the UDP port are")
	s.textFields = settings.Choice{Value: textOmit, Words: []string{textOmit, textRefuse}}
	f.Var(&s.textFields, "text-fields", "text in line protocol, which is not stored: leave it out and count it, or answer with an error beside what is written")
	f.Var(&s.GRPCAddr, "grpc-addr", "gRPC: the API of the client libraries and commands, health")
	f.Var(&s.OTLPAddr, "otlp-grpc-addr", "gRPC: OpenTelemetry metrics, usually at :4317 (default off)")
	f.Var(&s.MetricsAddr, flagMetrics, "HTTP: metrics and health alone, by the sign-in and TLS of --http-addr (default off)")
	settings.Group(f, settings.HeadingListeners, "http-addr", "put-addr", "line-addr", "graphite-addr", "graphite-templates", "mqtt-file", "udp-addr", "udp-format", "text-fields", "grpc-addr", "otlp-grpc-addr", flagMetrics)
}

// Words of --text-fields.
const (
	textOmit   = "omit"
	textRefuse = "refuse"
)

// listenerFlag is a flag that names an address.
type listenerFlag struct {
	flag, network string
	address       settings.Address
}

// ofClients returns the listeners that read, write or delete for those who connect.
func (s *Listeners) ofClients() []listenerFlag {
	return []listenerFlag{
		{"http-addr", "tcp", s.HTTPAddr}, {"put-addr", "tcp", s.PutAddr}, {"line-addr", "tcp", s.LineAddr},
		{"graphite-addr", "tcp", s.GraphiteAddr}, {"udp-addr", "udp", s.UDPAddr}, {"grpc-addr", "tcp", s.GRPCAddr}, {"otlp-grpc-addr", "tcp", s.OTLPAddr},
	}
}

func (s *Listeners) listeners() []listenerFlag {
	return append(s.ofClients(), listenerFlag{flagMetrics, "tcp", s.MetricsAddr})
}

// flagMetrics names the port that is not for clients.
const flagMetrics = "metrics-addr"

// validateListeners resolves the addresses and looks for one that is used twice.
func validateListeners(v *settings.Validation, listeners []listenerFlag) {
	wrong, serves := false, false
	flagOf := map[string]string{}
	for _, l := range listeners {
		if l.address == "" {
			continue
		}
		resolved, port, err := l.resolve()
		if err != nil {
			v.Refuse(l.flag, string(l.address), err.Error())
			wrong = true
			continue
		}
		serves = serves || l.flag != flagMetrics
		key := l.network + " " + resolved
		if before, ok := flagOf[key]; ok && port != 0 {
			v.Refuse(l.flag, string(l.address), "--"+before+" listens there")
		}
		flagOf[key] = l.flag
	}
	if !serves && !wrong {
		v.Add(errors.New("every listener is switched off: set --http-addr or another address"))
	}
}

// pageURL returns where the page is, by the name that this machine has for itself.
func (s *Settings) pageURL(encrypted bool) string {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "localhost"
	}
	scheme := "http"
	if encrypted {
		scheme = "https"
	}
	_, port, err := net.SplitHostPort(string(s.HTTPAddr))
	if err != nil {
		return ""
	}
	return scheme + "://" + net.JoinHostPort(hostname, port)
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
