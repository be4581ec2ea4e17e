// Package promql serves Prometheus' HTTP API over a scan.Source: Prometheus' own engine
// (github.com/prometheus/prometheus/promql) evaluates, this package reads.
//
// A request goes through these steps:
//
//	handler.ServeHTTP       origins, the form, the database and the right to read it
//	admission.Begin            a place among the queries, limits, the time limit
//	takeOut                 functions of a range of one metric leave the expression: the
//	                        source is asked for their values at the steps (scan.Steps),
//	                        which are made where the samples are (api/scan/steps)
//	direct                  what is left is but a selector, or a simple aggregation of one:
//	                        it is answered from the columns that are read, or from rows
//	                        of groups where the order of series does not matter (foldOf)
//	engine                  else the expression is evaluated and asks for series
//	querier.Select          matchers become selectors (selectorsOf), scans become columns
//	                        of labels and samples (collector)
//	newMetricsQuery         an expression that is none of PromQL may be one of MetricsQL (metricsql):
//	                        the engine evaluates what PromQL has, and in the place of the rest
//	                        stand selectors that find what was computed
//	encoder                 the result becomes JSON, sent as it grows
//
// A series of TickMesh is one of Prometheus: the metric is the label __name__, tags are
// labels. A tag that is empty counts as absent, as in Prometheus.
//
// What the package decides, because Prometheus leaves it open or cannot know it:
//
//   - What a selection reads is thinned to what the steps of the query can see (grid), where
//     the expression lets that be known: the answer is the same. Of instant selectors the
//     source does that (scan.StepNewest).
//   - An instant query of selectors without a range reads the newest sample of each series
//     (scan.Source.Last). Only a series with a younger one than the query's time is read by
//     its samples.
//   - Sums of series that are a whole expression are exact and rounded once (api/exactsum),
//     and means are that sum divided; the engine's own are compensated.
//   - Series come to the engine in an order that does not depend on where they are stored
//     (rank), wherever the answer may depend on it.
//   - Staleness markers are samples with their own bits and hide a series from its marker
//     on. They are never summed or taken for a value.
//   - A subquery has a bound of its steps, as the engine makes lists as long.
//   - Lists of names and series know no time: what retention has not dropped is listed.
//   - Who may not read a database gets 403 with errorType "forbidden", which Prometheus
//     does not have. A query that finds no place, or data that cannot be reached, gets 503
//     with errorType "unavailable" and Retry-After.
//   - Native histograms cannot be stored, so none is answered.
package promql
