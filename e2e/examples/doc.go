// Package examples plays the pages of hack/examples with the real programs that they are about: Debian's Prometheus and
// Alertmanager, and Telegraf and OpenTelemetry's Collector as e2e/clients builds them.
package examples
