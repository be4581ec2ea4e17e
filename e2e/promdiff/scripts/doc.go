// Package scripts runs Prometheus' own test scripts (promql/promqltest/testdata of the
// module github.com/prometheus/prometheus) against our storage: what they load goes as a
// remote write through parser, splitter and log into a node, and the engine reads it
// through package promql, once with the plan of each expression and once without.
//
// It also compares what parse.OTLP makes of OpenTelemetry's metrics with what Prometheus' own
// converter does. It has tests only.
package scripts
