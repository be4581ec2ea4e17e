// Package metricsql compares what TickMesh has of MetricsQL with VictoriaMetrics: with what it answered before, which testdata has, and
// with one that is built where its sources are.
package metricsql
