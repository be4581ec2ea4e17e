// Package metricsql evaluates what VictoriaMetrics' query language has beyond PromQL, on top of an engine for PromQL.
//
// The text is parsed by VictoriaMetrics' own parser (github.com/VictoriaMetrics/metricsql). Compile makes a Program of it: what
// PromQL has stays text for its engine, with that engine's meaning; each call that only MetricsQL has becomes a Node, and in the text around
// it stands a selector of its number (Placeholder). Evaluating a program evaluates its nodes in their order and gives what they are, at
// the steps of the query, to the engine in the place of stored series.
//
// Nodes have VictoriaMetrics' meaning: windows of functions such as rollup_rate, and of functions of PromQL whose window is left out
// (rate(x)), see the sample before the window, and NaN is no value. What the package does not have it refuses by name.
package metricsql
